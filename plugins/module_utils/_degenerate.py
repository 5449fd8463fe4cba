# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Recognises output that no working model gives: one token over and over, or a phrase in a loop."""

from __future__ import annotations

import re
from collections import Counter

SINGLE_CHARACTER_SHARE = 0.9
SINGLE_CHARACTER_LEAST = 8
TAIL_RUN_LEAST = 12
PHRASE_REPETITIONS = 4
PHRASE_WORDS_MOST = 40
LOOP_CHARACTERS_LEAST = 24
LOOP_WINDOW = 2000
REPLACEMENT_SHARE = 0.1

# What people do draw lines with; a long row of these says nothing about the model.
_DRAWING = frozenset("-=_*#~.─━│| \n\t\r")
_SPECIAL_TOKEN = re.compile(r"<(?:unk|pad|s|/s|bos|eos|mask|\||\uff5c)[^<>]{0,40}>?|\[(?:UNK|PAD|MASK)\]")
_WORD = re.compile(r"\w+")


def incoherence(text: str) -> str | None:
    """Say what in ``text`` betrays a broken model, None where nothing does.

    NaN logits decode to token 0, which is "!" in most byte-level vocabularies and <unk> or <pad> in others
    (vllm-project/vllm#22881, #24025). What comes before the collapse may be sound.
    """
    if len(text) >= SINGLE_CHARACTER_LEAST:
        visible = "".join(text.split())
        if not visible:
            return f"{len(text)} characters of white space and nothing else"
        character, count = Counter(visible).most_common(1)[0]
        if count >= SINGLE_CHARACTER_LEAST and count >= SINGLE_CHARACTER_SHARE * len(visible):
            return f"{count} of {len(visible)} characters are {character!r}"
    tail = text.rstrip()
    if tail and tail[-1] not in _DRAWING:
        run = len(tail) - len(tail.rstrip(tail[-1]))
        if run >= TAIL_RUN_LEAST:
            return f"it ends in {run} times {tail[-1]!r}"
    special = _SPECIAL_TOKEN.findall(text)
    if len(special) >= PHRASE_REPETITIONS and sum(map(len, special)) >= len(text.strip()) / 2:
        return f"it consists of special tokens ({special[0]!r}, {len(special)} of them)"
    replaced = text.count("\ufffd")
    if replaced >= PHRASE_REPETITIONS and replaced >= REPLACEMENT_SHARE * len(text):
        return f"{replaced} of {len(text)} characters are no valid text"
    return None


def repetition(text: str) -> str | None:
    """Say which word or phrase ``text`` repeats, None where it repeats none.

    Source: sgl-project/sglang#20820, vllm-project/vllm#23702 ("claus claus claus claus c").
    """
    words = _WORD.findall(text.casefold())
    return _repeated_phrase(words) or _looping_tail(text)


def _repeated_phrase(words: list[str]) -> str | None:
    """Find a phrase of up to PHRASE_WORDS_MOST words that stands PHRASE_REPETITIONS times in a row."""
    for period in range(1, min(PHRASE_WORDS_MOST, len(words) // PHRASE_REPETITIONS) + 1):
        run = 0
        for index in range(period, len(words)):
            run = run + 1 if words[index] == words[index - period] else 0
            if run >= (PHRASE_REPETITIONS - 1) * period:
                phrase = words[index - period + 1 : index + 1]
                # Rows of digits and single letters are tables, formulas, initials.
                if any(len(word) > 1 and not word.isdigit() for word in phrase):
                    return f"{' '.join(phrase)!r} {PHRASE_REPETITIONS} times or more in a row"
    return None


def _looping_tail(text: str) -> str | None:
    """Find a loop that runs to the end, in scripts that put no space between words as well."""
    tail = " ".join(text.split())[-LOOP_WINDOW:]
    for period in range(2, len(tail) // PHRASE_REPETITIONS + 1):
        index = len(tail) - 1
        while index >= period and tail[index] == tail[index - period]:
            index -= 1
        looped = len(tail) - 1 - index + period
        unit = tail[-period:]
        # Eight ideographs are as much of a loop as a sentence in letters.
        least = LOOP_CHARACTERS_LEAST if unit.isascii() else LOOP_CHARACTERS_LEAST // 3
        if looped >= max(least, PHRASE_REPETITIONS * period) and any(c.isalpha() for c in unit):
            return f"{unit.strip()!r} {looped // period} times up to the end"
    return None
