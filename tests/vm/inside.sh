#!/bin/sh
# The guest's first process: file systems, a copy of the package that any user may read, and then each situation in turn.
checkout=$1 site=$2
shift 2
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t cgroup2 -o nsdelegate cgroup2 /sys/fs/cgroup
ip link set lo up 2>/dev/null
mkdir -p /run/q/site
cp -r "$checkout/src/quintain" "$checkout/tests/vm/situations.py" /run/q/
cp -r "$site"/msgspec /run/q/site/
find /run/q -name __pycache__ -prune -exec rm -rf {} +
chmod -R a+rX /run/q
sysctl -qw kernel.unprivileged_userns_clone=1 2>/dev/null
cd /
echo "kernel $(uname -r), $(nproc) CPUs, up $(cut -d' ' -f1 /proc/uptime) s"
PYTHONPATH=/run/q:/run/q/site /usr/bin/python3 /run/q/situations.py "$@"
sync
echo o > /proc/sysrq-trigger
sleep 60
