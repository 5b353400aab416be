#!/usr/bin/env bash
# `npm run test:guest`: busbar as services of systemd, with control groups of version 2, on a Debian of its own under qemu.
# One line for each check (checks.sh); exit 0 when all hold. Needs no network but for the first making of the machine's disk.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
seconds=${BUSBAR_GUEST_SECONDS:-1500}

missing=()
for entry in qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mke2fs:e2fsprogs; do
  command -v "${entry%%:*}" >/dev/null 2>&1 || missing+=("${entry##*:}")
done
[[ $(id -u) == 0 ]] || missing+=("root, to make the machine's disk")
if ((${#missing[@]} > 0)); then
  printf 'LEFT OUT: the guest test; missing here: %s\n' "$(IFS=,; echo "${missing[*]}")"
  exit 77
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/busbar-guest-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
scripts/install --destdir "$work/root" >/dev/null
mkdir "$work/payload"
mv "$work"/root/opt/busbar/releases/* "$work/payload/old"
# Another build, as far as the installer can tell: its name begins with another stamp.
cp -a "$work/payload/old" "$work/payload/new"
sed -i '/"version"/s/"\([0-9.]*\)"/"\1+1"/' "$work/payload/new/package.json"
echo "new" >"$work/payload/new/dist/.stamp"
cp scripts/guest/checks.sh "$work/payload/run"
scripts/guest/machine.sh run "$work/payload" "$seconds" </dev/null
