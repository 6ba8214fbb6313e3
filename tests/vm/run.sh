#!/bin/sh
# Boots a Debian kernel under qemu with a unified (v2) cgroup tree, and checks the native sandbox there. See README.md.
# usage: [KERNEL_ROOT=DIR] [KERNEL=VERSION] tests/vm/run.sh [SITUATION...]
# KERNEL_ROOT: where boot/ and lib/modules/ lie (default /); KERNEL: default the newest there that has 9p
set -eu
here=$(cd "$(dirname "$0")" && pwd)
checkout=$(cd "$here/../.." && pwd)
for tool in qemu-system-x86_64 busybox cpio modprobe; do
  command -v "$tool" >/dev/null || { echo "expected $tool: apt-get install qemu-system-x86 busybox-static cpio kmod" >&2; exit 2; }
done
root=${KERNEL_ROOT:-}
version=${KERNEL:-$(for d in "$root"/lib/modules/*/kernel/fs/9p; do d=${d%/kernel/fs/9p}; echo "${d##*/}"; done | sort -V | tail -n 1)}
kernel=$root/boot/vmlinuz-$version
[ -n "$version" ] && [ -r "$kernel" ] || { echo "expected a readable kernel with 9p, found '$kernel': apt-get install linux-image-amd64" >&2; exit 2; }
site=$(echo "$checkout"/.venv/lib/python3.*/site-packages)
[ -d "$site/msgspec" ] || { echo "expected msgspec in $site: make venv" >&2; exit 2; }

accel=tcg,thread=multi
[ -w /dev/kvm ] && grep -qE "vmx|svm" /proc/cpuinfo && accel=kvm

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/bin" "$scratch/modules" "$scratch/host" "$scratch/proc"
cp "$(command -v busybox)" "$scratch/bin/busybox"
: > "$scratch/modules/order"
for module in virtio_pci 9pnet_virtio 9p overlay; do
  modprobe -d "$root/" -S "$version" --show-depends "$module" | while read -r verb file _; do
    [ "$verb" = insmod ] || continue
    cp "$file" "$scratch/modules/"
    echo "/modules/${file##*/}" >> "$scratch/modules/order"
  done
done
cat > "$scratch/init" <<EOF
#!/bin/busybox sh
b=/bin/busybox
\$b mount -t proc proc /proc
for m in \$(\$b cat /modules/order); do
  case \$m in *.xz) \$b xz -dc \$m > /m.ko; m=/m.ko;; esac
  \$b insmod \$m 2>/dev/null
done
\$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro hostroot /host || \$b sh
\$b umount /proc
exec \$b switch_root /host /bin/sh "$here/inside.sh" "$checkout" "$site" $*
EOF
chmod +x "$scratch/init"
(cd "$scratch" && find . | cpio -o -H newc --quiet) > "$scratch.cpio"
trap 'rm -rf "$scratch" "$scratch.cpio" "$scratch.log"' EXIT
timeout "${SECONDS_ALLOWED:-290}" nice -n 10 qemu-system-x86_64 -accel "$accel" -cpu max -smp 2 -m 2G \
  -nographic -no-reboot -nic none -kernel "$kernel" -initrd "$scratch.cpio" \
  -append "console=ttyS0 quiet panic=-1 net.ifnames=0" \
  -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap < /dev/null | tee "$scratch.log"
grep -q '^ALL GOOD' "$scratch.log"
