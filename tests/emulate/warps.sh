#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# warps.sh LIBRARY COMMAND...: runs a test with the one OpenCL device that LIBRARY has (tests/emulate/opencl.c): a GPU of
# NVIDIA's, whose warps this machine's processor goes through. MOECHAT_WARPS_SEED chooses the order in which they go on.
if ! command -v clang >/dev/null || [ "$(uname -m)" != x86_64 ]; then
    echo "SKIP kernels for tensor cores run on x86-64 with clang alone (Debian: apt install clang)"
    exit 0
fi
library=$1
shift
LD_LIBRARY_PATH=$(dirname "$library")
MOECHAT_TEST_SHAPE=gpu
MOECHAT_WARPS_CACHE=${XDG_CACHE_HOME:-$LD_LIBRARY_PATH}/warps
mkdir -p "$MOECHAT_WARPS_CACHE"
export LD_LIBRARY_PATH MOECHAT_TEST_SHAPE MOECHAT_WARPS_CACHE
exec "$@"
