#!/bin/bash
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# A held GPU, and everybody who holds it; then the servers are killed that leave something behind.
set -eu
vllm="/usr/bin/python3 /srv/actors/vllm serve"
offline="/usr/bin/python3 /srv/actors/offline.py --model"
hold="/usr/bin/python3 /srv/actors/hold.py"
left="shell scope deaf stopped unit"

# A twin of /dev/null can be held like the real node.
for node in nvidia0 nvidiactl nvidia-uvm; do mknod -m 0666 "/dev/$node" c 1 3; done
ln -s /srv/actors/stand_in.py /usr/local/bin/nvidia-smi
exec </dev/null >/dev/null 2>&1

# In the unit of sshd itself, for want of pam_systemd; then in scopes, as sessions have them.
setsid $vllm shell &
systemd-run --scope --uid=inference setsid $vllm scope --shared-memory &
systemd-run --scope --uid=inference setsid $vllm deaf --deaf &
systemd-run --scope --uid=inference setsid $vllm stopped &
# A unit that leaves its workers alone.
systemd-run --unit=left --uid=inference --property=KillMode=process $vllm unit

# What has to stay: a unit's live workers, a second user's job, her own program that uses the engine, a daemon
# of the driver, and many others.
systemd-run --unit=serving --uid=inference $vllm serving
systemd-run --scope --uid=alice setsid $hold job &
systemd-run --scope --uid=alice setsid $offline own &
systemd-run --unit=daemon bash -c "exec -a /usr/bin/nvidia-persistenced $hold daemon"
systemd-run --unit=crowd --uid=alice sh -c 'for i in $(seq 500); do sleep 1d & done; wait'

for name in shell scope deaf stopped unit serving own; do
    for worker in "$name" "$name.worker0" "$name.worker1"; do
        timeout 30 sh -c "until [ -s /run/actors/$worker ]; do sleep 0.1; done"
    done
done
timeout 30 sh -c "until [ -s /run/actors/job ] && [ -s /run/actors/daemon ]; do sleep 0.1; done"

kill -STOP "$(cat /run/actors/stopped.worker0)"
for name in $left; do kill -KILL "$(cat "/run/actors/$name.server")"; done
timeout 30 sh -c "while systemctl is-active --quiet left.service; do sleep 0.1; done"
touch /run/actors/started
