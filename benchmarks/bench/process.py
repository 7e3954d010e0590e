"""What the operating system says of a process: CPU time, memory, cores."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from collections.abc import Iterable
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cores() -> tuple[int | None, int | None]:
    """The core of the proxy and that of everything else; None, None if there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    return (usable[0], usable[1]) if len(usable) > 1 else (None, None)


class Others:
    """What share of its cores the machine gave to processes that are not ours."""

    def __init__(self) -> None:
        self._begun = self._now()

    def share(self) -> float:
        """Since it was made; ask when all children have been waited for."""
        busy, own, seconds = (
            now - begun for now, begun in zip(self._now(), self._begun, strict=True)
        )
        return (busy - own) / seconds / (os.cpu_count() or 1)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        """Seconds of CPU used by all, by us and our children, and passed."""
        user, nice, system, _, _, irq, softirq, *_ = map(
            int, Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        )
        used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        own = sum(usage.ru_utime + usage.ru_stime for usage in used)
        return (user + nice + system + irq + softirq) / _TICK, own, time.monotonic()


def cpu_ns(pids: Iterable[int]) -> int:
    """Nanoseconds of CPU (user and system) that these processes have used, ended threads too.

    The clock of another process: clock_getcpuclockid(3) makes its number of the process's, as here.
    (/proc/PID/task/*/schedstat would lose threads that have ended, /proc/PID/stat counts in 10 ms.)
    """
    return sum(map(_cpu_of, pids))


def cpu_ns_at_rest(pids: list[int], seconds: float) -> int:
    """The same, once they have used less than a tenth of ``seconds`` in that time.

    What a proxy does after its answers counts, and is not to disturb the next one.
    """
    used = cpu_ns(pids)
    for _ in range(50):
        before = used
        time.sleep(seconds)
        used = cpu_ns(pids)
        if used - before < seconds * 1e8:
            break
    return used


def _cpu_of(pid: int) -> int:
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)
    except OSError:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            return 0
        return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // _TICK


def resident(pids: Iterable[int]) -> int:
    """Bytes resident now."""
    return sum(_status(pid, "VmRSS") for pid in pids)


def peak(pids: Iterable[int]) -> int:
    """Most bytes resident since ``forget_peak``."""
    return sum(_status(pid, "VmHWM") for pid in pids)


def forget_peak(pids: Iterable[int]) -> None:
    """Make ``peak`` begin anew, see proc_pid_clear_refs(5)."""
    for pid in pids:
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    return 0
