# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Options that the modules about model directories share."""

from __future__ import annotations


class ModuleDocFragment:
    # For modules that look whether the server's user can read the model.
    READABLE_BY = r"""
options:
  readable_by:
    description:
      - A user that is to read the model, such as the one that the server runs as.
      - Files and directories whose owner and mode keep that user out are problems of the model.
      - Not looked at when empty.
    type: str
    default: ""
"""
