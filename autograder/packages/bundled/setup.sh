#!/usr/bin/env bash
# Prepares Gradescope's container, once: Python, the libraries at the versions that were tested, the grader.
# With PYTHON set, that Python is used as it is, and no system package is installed.
set -euo pipefail
BASE=${AUTOGRADER_BASE:-/autograder}

if [ -z "${PYTHON:-}" ]; then
  export DEBIAN_FRONTEND=noninteractive
  apt-get update
  apt-get install -y --no-install-recommends bubblewrap libseccomp2
  for version in 3.12 3.13 3.14 3.15 3.11 none; do
    if [ "$version" = none ]; then
      echo "The course needs Python 3.11 to 3.15. Choose an image of Ubuntu 22.04 or 24.04." >&2
      exit 1
    fi
    apt-get install -y --no-install-recommends "python$version" "python$version-venv" && break
  done
  "python$version" -m venv "$BASE/venv"
  PYTHON=$BASE/venv/bin/python
fi

cd "$BASE/source"
"$PYTHON" -m pip install --no-cache-dir --disable-pip-version-check -r requirements.txt
"$PYTHON" -I -m autograder.platforms.gradescope prepare
