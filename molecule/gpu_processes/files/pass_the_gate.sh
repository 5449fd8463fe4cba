#!/bin/bash
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Starts a server through the gate, kills it so that its workers are left in its unit, and lets systemd restart it;
# then starts it at a moment when a device node is not there yet, as early in a boot.
set -eu
actors=/run/actors
workers="gated gated.worker0 gated.worker1"

await() { timeout 60 sh -c "until $1; do sleep 0.1; done"; }
all_there() { await "[ -s $actors/gated ] && [ -s $actors/gated.worker0 ] && [ -s $actors/gated.worker1 ]"; }

systemctl daemon-reload
systemctl start gated.service
all_there

mkdir -p $actors/old
for name in $workers; do mv $actors/$name $actors/old/; done
kill -KILL "$(systemctl show --property=MainPID --value gated.service)"
all_there

rm /dev/nvidia-uvm
systemctl stop gated.service
for name in $workers; do kill -KILL "$(cat $actors/$name)"; rm $actors/$name; done
systemctl start --no-block gated.service
sleep 3 # the gate has to wait for the device; here the passing of time is what is tested
mknod -m 0666 /dev/nvidia-uvm c 1 3
all_there

if systemctl start greedy.service; then
    echo "a server was let through that needs more memory than there is" >&2
    exit 1
fi
touch $actors/passed
