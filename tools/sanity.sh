#!/bin/sh
# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# ansible-test wants a real tree under ansible_collections, in a git repository; it gets a copy of what is tracked.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
tree=$here/.cache/sanity/ansible_collections/firsttoken/serving
rm -rf "$here/.cache/sanity"
mkdir -p "$tree"
cd "$here"
git ls-files -z | xargs -0 cp --parents -t "$tree"
# ansible-test downloads a pip bootstrap; where that cannot be had, the interpreter's own ensurepip does the same.
bootstrap=$HOME/.ansible/test/cache/get_pip_24_2.py
if [ ! -e "$bootstrap" ]; then
    mkdir -p "$(dirname "$bootstrap")"
    printf 'import ensurepip\nensurepip.bootstrap(default_pip=True)\n' >"$bootstrap"
fi
cd "$tree"
git init -q . && git add -A
version=$("$here/.venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
exec "$here/.venv/bin/ansible-test" sanity --local --requirements --python "$version" --exclude tests/ --exclude molecule/ --exclude tools/ "$@"
