"""What each client puts into its requests, for ``fuzz.own_texts``."""

from typing import NamedTuple

from tests import shapes

RULES_OF_AIDER = "To suggest changes you MUST return the file.\n\nReply in English.\n"
DATE = "<system-reminder>\nThe current date is: November 2{}, 2026. Note.\n</system-reminder>"
AIDERS = "Act as an expert software developer.\nAlways use best practices when coding.\n"


class Agent(NamedTuple):
    """How a client builds a request: ``{}`` is another digit in each turn.

    ``before``: blocks of its own in the first user message, ``now``: in the last one alone.
    ``prefixes``: one of them stands before each user's text, ``suffix``: behind the last one's.
    ``after``: a message of its own at the end.
    """

    agent: str
    system: tuple[str, ...]
    before: tuple[str, ...] = ()
    now: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ("",)
    suffix: str = ""
    after: str = ""
    header: str = "accept"


AGENTS = {
    "claude": Agent(
        "claude-cli/2.1.100 (external, cli)",
        (shapes.BILLING, shapes.IDENTITY, shapes.MONTH, shapes.GIT),
        before=(shapes.REMINDER.removesuffix("Go on."),),
    ),
    "claude-resumed": Agent("claude-cli/2.1.90", (shapes.BILLING, "Be."), now=(shapes.SKILLS,)),
    "claude-bare": Agent("claude-cli/2.1.329", (shapes.BILLING, shapes.BARE)),
    "openclaw": Agent(
        "OpenAI/JS 7.15.0",
        (f"{shapes.ATTEMPT}\n{shapes.INBOUND}\n{shapes.RUNTIME}",),
        prefixes=(shapes.METADATA + shapes.STAMP, shapes.STAMP),
        after=shapes.CONTEXT,
    ),
    "opencode": Agent("opencode/1.18.33", (shapes.OPENCODE,)),
    "kilo": Agent("Kilo-Code/7.7.9", (shapes.KILO,)),
    "continue": Agent("ls/JS 5.23.2", (shapes.CONTINUE,)),
    "omp": Agent("omp/18.2.3", ("Be.",), before=(shapes.OMP,)),
    "pi": Agent("OpenAI/JS 6.26.0", (shapes.PI,)),
    "cline": Agent("ai-sdk/openai-compatible/3", (shapes.CLINE,)),
    "codex": Agent("codex_exec/0.169.0", ("You are Codex, based on GPT-5.",)),
    "qwen": Agent(
        "QwenCode/0.24.4 (linux; x64)",
        (f"You are Qwen Code, a CLI agent.\n\n{shapes.QWEN_GIT}\n\n---\n",),
        before=(
            "<system-reminder>\nSkills.\n</system-reminder>",
            f"{shapes.QWEN}</system-reminder>",
        ),
        now=(DATE,),
    ),
    "aider": Agent(
        "OpenAI/Python 2.20.0",
        (f"{AIDERS}{shapes.AIDER}\n{RULES_OF_AIDER}",),
        suffix=f"\n\n{RULES_OF_AIDER}",
    ),
    "crush": Agent("Charm-Crush/v0.96.1", (f"You are Crush.\n\n{shapes.CRUSH}\n",)),
    "goose": Agent("", (f"{shapes.GOOSE}\ngoose uses LLM providers.",), now=(shapes.TURN_CONTEXT,)),
    "goose-stays": Agent("", (f"{shapes.GOOSE}\ngoose.",), before=(shapes.TURN_CONTEXT,)),
    "librechat": Agent("OpenAI/JS 5", (shapes.SPECIALS,), header="x-librechat-session-id"),
    "gemini": Agent("GeminiCLI-tui/0.61.0", ("You are an agent.",)),
}
