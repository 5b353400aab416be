#!/usr/bin/env bash
# A Debian machine with a systemd of its own and control groups of version 2, emulated by qemu: what a build host is, for tests.
#
#   machine.sh image             make its disk, or find it in the cache; says where it lies
#   machine.sh run DIR SECONDS   boot it with a copy of DIR at /payload, run /payload/run as root, power off;
#                                what that writes appears here, and its exit code is ours (124: not done in time)
#
# The disk is made of Debian's packages by mmdebstrap and `mke2fs -d`: nothing of this host is mounted, no loop device is used.
# Debian's kernel for clouds has NVMe and ext4 built in, so there is no initial RAM disk. The machine has no network, and
# never writes to its disk in the cache. One processor: code that several emulated ones patch has made kernels panic.
set -euo pipefail
suite=${BUSBAR_GUEST_SUITE:-trixie}
cache=${BUSBAR_GUEST_CACHE:-/var/cache/busbar-guest}
packages=systemd-sysv,kmod,procps,util-linux,git,bubblewrap,ca-certificates,libstdc++6
node=$(readlink -f "$(command -v node)")

say() { echo "guest: $*" >&2; }

# The disk's directory: another one for another recipe, suite or Node.
image_dir() {
  local key
  key=$({ declare -f runner unit hook image; echo "$suite $packages"; "$node" --version; } | sha256sum)
  echo "$cache/$suite-${key:0:12}"
}

mirror() {
  sed -n 's/^URIs: *\([^ ]*\).*/\1/p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1
}

# What the machine does once it is up: the payload comes on /dev/vda; words go to the serial line, each behind a mark.
runner() {
  cat <<'RUN'
#!/bin/bash
modprobe virtio_pci 2>/dev/null; modprobe virtio_blk
for ((i = 0; i < 100; i++)); do [[ -b /dev/vda ]] && break; sleep 0.1; done
mkdir -p /payload && mount -t ext4 -o noatime /dev/vda /payload
cd /payload
export HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
{ echo "up after $(cut -d' ' -f1 /proc/uptime) s"; setsid --wait ./run 2>&1; echo "@exit $?"; } | sed -u 's/^/@ /' > /dev/ttyS0
sync
systemctl poweroff -ff
RUN
}

unit() {
  cat <<'UNIT'
[Unit]
Description=What the host wants to be run
After=multi-user.target
[Service]
Type=exec
ExecStart=/usr/local/sbin/payload-run
[Install]
WantedBy=graphical.target
UNIT
}

# Kernel and modules of the same suite, unpacked and not installed: that would make an initial RAM disk.
hook() {
  cat <<'HOOK'
#!/bin/sh
set -e
package=$(chroot "$1" apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -n 1)
(cd "$1/var/tmp" && chroot "$1" sh -c "cd /var/tmp && apt-get download -qq $package")
mkdir "$1/var/tmp/k"
dpkg-deb -x "$1"/var/tmp/linux-image-*.deb "$1/var/tmp/k"
HOOK
}

image() {
  local dir work root modules unneeded
  dir=$(image_dir)
  [[ -e $dir/disk.ext4 ]] && { echo "$dir"; return; }
  mkdir -p "$cache"
  work=$(mktemp -d "$cache/making.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  root=$work/root
  say "making a disk with Debian $suite (a minute or two)"
  hook > "$work/hook"
  chmod 755 "$work" "$work/hook"
  mmdebstrap --quiet --variant=minbase --include="$packages" --customize-hook="$work/hook" \
    "$suite" "$root" "$(mirror)" >&2
  cp "$root"/var/tmp/k/boot/vmlinuz-* "$work/kernel"
  modules=$(dirname "$(find "$root/var/tmp/k" -path '*/modules/*' -name kernel -type d | head -n 1)")
  mkdir -p "$root/usr/lib/modules"
  cp -a "$modules" "$root/usr/lib/modules/"
  chroot "$root" depmod "$(basename "$modules")"
  install -m 755 "$node" "$root/usr/local/bin/node"
  echo build-host > "$root/etc/hostname"
  echo "127.0.0.1 localhost build-host" > "$root/etc/hosts"
  echo 0123456789abcdef0123456789abcdef > "$root/etc/machine-id"
  runner > "$root/usr/local/sbin/payload-run"
  chmod 755 "$root/usr/local/sbin/payload-run"
  unit > "$root/etc/systemd/system/payload-run.service"
  mkdir -p "$root/etc/systemd/system/graphical.target.wants"
  ln -s ../payload-run.service "$root/etc/systemd/system/graphical.target.wants/"
  ln -sf /usr/lib/systemd/system/graphical.target "$root/etc/systemd/system/default.target"
  for unneeded in getty@tty1.service getty.target serial-getty@ttyS0.service ldconfig.service systemd-firstboot.service \
    apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer e2scrub_all.timer e2scrub_reap.service \
    systemd-tmpfiles-clean.timer systemd-random-seed.service systemd-pstore.service systemd-hwdb-update.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unneeded"
  done
  rm -rf "$root"/var/tmp/* "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale} "$root"/dev/*
  touch "$root/etc/.updated" "$root/var/.updated"
  mke2fs -q -t ext4 -F -m 0 -E lazy_itable_init=1,lazy_journal_init=1 -d "$root" "$work/disk.ext4" \
    "$(($(du -sm "$root" | cut -f1) * 12 / 10 + 1000))M" >&2
  mkdir -p "$dir"
  mv "$work/kernel" "$dir/"
  mv "$work/disk.ext4" "$dir/"
  echo "$dir"
}

boot() {
  local dir=$1 payload=$2 seconds=$3
  timeout --signal=KILL "$seconds" qemu-system-x86_64 -machine q35,usb=off -accel tcg,thread=multi,tb-size=512 -smp 1 -m 2048 \
    -nodefaults -no-user-config -nographic -no-reboot -nic none -kernel "$dir/kernel" \
    -append "root=/dev/nvme0n1 rootwait rw console=ttyS0 quiet loglevel=3 mitigations=off audit=0 apparmor=0 nokaslr panic=-1 oops=panic systemd.show_status=error" \
    -drive "if=none,id=root,format=raw,snapshot=on,file=$dir/disk.ext4" -device nvme,serial=root,drive=root \
    -drive "if=none,id=payload,format=raw,cache=unsafe,file=$payload" -device virtio-blk-pci,drive=payload \
    -serial stdio </dev/null
}

run() {
  local dir work code
  dir=$(image)
  work=$(mktemp -d "${TMPDIR:-/tmp}/busbar-guest.XXXXXX")
  # shellcheck disable=SC2064
  trap "rm -rf '$work'" EXIT
  mke2fs -q -t ext4 -F -m 0 -O ^has_journal -E lazy_itable_init=1 -d "$1" "$work/payload.ext4" \
    "$(($(du -sm "$1" | cut -f1) * 13 / 10 + 200))M" >&2
  boot "$dir" "$work/payload.ext4" "$2" | stdbuf -o0 tr -d '\r' | tee "$work/serial" | stdbuf -oL sed -n 's/^@ //p' | stdbuf -oL grep -v '^@exit' || true
  code=$(sed -n 's/^@ @exit //p' "$work/serial" | tail -n 1)
  [[ -n $code ]] && return "$code"
  say "no end was reached in $2 s; its last words:"
  tail -n 20 "$work/serial" >&2
  return 124
}

case ${1:-} in
  image) image ;;
  run) run "$2" "$3" ;;
  *) sed -n '2,11p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
