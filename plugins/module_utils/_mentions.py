# SPDX-FileCopyrightText: 2026 firsttoken.serving contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Finds whether a text gives an expected answer: as a word of its own, and as a statement.

"Parisian", "comparison", "not Paris", "Paris is not", "Is it Paris?" mention the letters and give no answer.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

# Scripts that write words without spaces between them: a neighbour there is no part of the word.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    r"\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Korean puts its particles right behind a word: they end it on the right.
_PARTICLES = re.compile(r"[\uac00-\ud7a3]")

# All of these patterns meet normalised text: full-width punctuation and curly apostrophes are gone.
_CLAUSE_END = re.compile(r"[,;:.!?()\[\]\n—。]|\b(?:but|however|aber|sondern|mais|pero)\b")
_SENTENCE_END = re.compile(r"(?<=[.!?。])(?:[\"'\u201d)*_]*)(?=\s|$|[^\x00-\x7f])|\n+")

_PLAIN = {0x2019: "'", 0x2018: "'", 0x02BC: "'", 0x2212: "-", 0x2010: "-", 0x2011: "-", 0x2013: "—"}
_NEUTRAL = re.compile(
    r"not to be (?:confused|mixed up) with|\bnot (?:only|just|merely|simply|solely)\b|\bnone other than\b"
    r"|\bno doubt\b|\bwithout (?:a )?(?:doubt|question)\b|\bnot surprisingly\b|\bwhy not\b"
)
_NEGATOR = (
    r"(?:\bnot\b|n't\b|\bcannot\b|\bnever\b|\bneither\b|\bnor\b|\bno longer\b|\brather than\b|\binstead of\b"
    r"|\bother than\b|\bexcept\b|\bunlike\b|\b(?:false|wrong|incorrect|untrue) (?:to say |to think )?that\b"
    r"|\b(?:mistakenly|wrongly|incorrectly|falsely)\b|\bused to be\b|\bmyth that\b|\bdoubt (?:that|it)\b"
    r"|\b(?:many|some|most|people|others) (?:people )?(?:think|believe|assume|say|claim|guess)\b"
    r"|\bnicht\b|\bkeine?[rsmn]?\b|\bpas\b|\bjamais\b|\bno (?:es|era)\b|\bnon (?:è|e')|\bnão\b"
    r"|\b\u043d\u0435\b|不是|并非|ではな)"
)
_NEGATED_BEFORE = re.compile(_NEGATOR + r"(?:(?:\W+\w+){0,8}?\W*)$")
_NEGATED_ASIDE = re.compile(r"(?:\bnot|\bnever|n't)\s*,[^,.;:!?]{1,40},(?:\s*\w+){0,3}\s*$")
_NEGATED_LIST = re.compile(r"\b(?:or|nor|oder|ou)\s+$")
_EITHER = re.compile(r"\b(?:either|whether|maybe|perhaps|possibly|might be|could be)\b(?:\W+\w+){0,8}?\W*$")
_COPULA = (
    r"(?:is|was|are|were|has|have|had|does|do|did|can|could|would|should|will|may|might|ist|war|est|es|è)"
)
_NEGATED_AFTER = re.compile(
    r"^[\"'\u201d*_)]*(?:\s*,[^,.;:!?]{1,40},)?\s+"
    rf"(?:n'?est pas\b|n'était pas\b|{_COPULA}n't\b|isnt\b|ain't\b|cannot\b|no longer\b|never\b"
    r"|no es\b|non è\b"
    rf"|{_COPULA}(?:\s+\w+ly|\s+still|\s+also|\s+in fact)?\s+(?:not|never|no longer|nicht|pas|neither)\b"
    rf"|{_COPULA}(?:\s+\w+){{0,2}}\s+(?:wrong|incorrect|false|mistaken|untrue)\b)"
)
_TAKEN_BACK = re.compile(
    r"\b(?:but|which|and) (?:that|this|it|they)?\s*(?:'s|is|was|are|'re|would be)\s+"
    r"(?:not|wrong|incorrect|false|mistaken|untrue)\b|^[\"'\u201d*_)]*\s*(?:ではな|不是)"
)
_AFFIRMED = re.compile(r"^\W*(?:yes|yeah|yep|correct|indeed|exactly|right|oui|ja|sí|si)\b")


@dataclass(frozen=True)
class Mention:
    """One place where an expected answer stands as a word of its own."""

    alternative: str
    stated: bool
    sentence: str


def normalised(text: str) -> str:
    """Bring ``text`` into the form in which answers are compared: NFKC, case folded, plain apostrophes."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return unicodedata.normalize("NFKC", folded).translate(_PLAIN)


def stated_answer(text: str, alternatives: Iterable[str]) -> Mention | None:
    """Give the mention by which ``text`` states one of ``alternatives``, None where it states none.

    The last mention that is either stated or denied decides, so that "Paris. No, wait: not Paris." fails.
    """
    decisive = mentions(text, list(alternatives))
    return decisive[-1] if decisive and decisive[-1].stated else None


def mentions(text: str, alternatives: Sequence[str]) -> list[Mention]:
    """Give every mention of an alternative in ``text``, in the text's order; questions are left out."""
    found = []
    whole = normalised(text)
    for alternative in alternatives:  # an expected phrase may be broken over two lines
        parts = normalised(alternative).split()
        whole = re.sub(r"\s+".join(map(re.escape, parts)), " ".join(parts).replace("\\", r"\\"), whole)
    for start, end in _sentences(whole):
        sentence = whole[start:end]
        for alternative in alternatives:
            for match in _words(sentence, normalised(alternative).strip()):
                if _is_question(sentence[match.end() :]) and not _AFFIRMED.match(whole[end:]):
                    continue
                stated = not _denied(sentence[: match.start()], sentence[match.end() :])
                found.append((start + match.start(), Mention(alternative, stated, sentence.strip())))
    return [mention for _position, mention in sorted(found, key=lambda item: item[0])]


def _sentences(text: str) -> list[tuple[int, int]]:
    cuts = [match.end() for match in _SENTENCE_END.finditer(text)]
    edges = [0, *cuts, len(text)]
    return [(start, end) for start, end in zip(edges, edges[1:]) if start < end]


def _words(sentence: str, alternative: str) -> list[re.Match[str]]:
    if not alternative:
        return []
    pattern = r"\s+".join(re.escape(part) for part in alternative.split())
    return [
        match
        for match in re.finditer(pattern, sentence)
        if not _continues_left(sentence[: match.start()], match.group())
        and not _continues_right(match.group(), sentence[match.end() :])
    ]


def _is_letter(character: str) -> bool:
    # An underscore is Markdown's emphasis here, not part of a word; a combining mark belongs to its letter.
    return character.isalnum() or unicodedata.category(character).startswith("M")


def _continues_left(before: str, word: str) -> bool:
    if not before or not _is_letter(word[0]):
        return False
    if _is_letter(before[-1]):
        return not (_UNSPACED.match(before[-1]) or _UNSPACED.match(word[0]))
    if before[-1] == "-" and (word[0].isdigit() or (len(before) > 1 and before[-2].isalnum())):
        return True
    return word[0].isdigit() and bool(re.search(r"\d[.,]$", before))


def _continues_right(word: str, after: str) -> bool:
    if not after or not _is_letter(word[-1]):
        return False
    if _is_letter(after[0]):
        return not (_UNSPACED.match(after[0]) or _UNSPACED.match(word[-1]) or _PARTICLES.match(after[0]))
    if after[0] == "-" and len(after) > 1 and after[1].isalnum():
        return True
    return word[-1].isdigit() and bool(re.match(r"[.,]\d", after))


def _is_question(after: str) -> bool:
    stripped = after.rstrip(" \t\n\"'\u201d)*_")
    return stripped.endswith("?")


def _denied(before: str, after: str) -> bool:
    before, after = _NEUTRAL.sub(" ", before), _NEUTRAL.sub(" ", after)
    clause = _CLAUSE_END.split(before)[-1]
    if _NEGATED_BEFORE.search(clause) or _EITHER.search(clause) or _NEGATED_ASIDE.search(before):
        return True
    if _NEGATED_LIST.search(before) and re.search(_NEGATOR, before) and not re.search(r"\bbut\b", before):
        return True
    return bool(_NEGATED_AFTER.match(after) or _TAKEN_BACK.search(after))
