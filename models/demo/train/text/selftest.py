# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks the generator: roles, repeatability, the border between the splits, and its own answers."""
import random
import re
import sys
import unittest
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parent.parent)
import text  # noqa: E402


def said(split, seed, count):
    rng = random.Random(seed)
    return [text.conversation(rng, split) for _ in range(count)]


class Generator(unittest.TestCase):
    def test_roles_alternate(self):
        for split in ("train", "eval"):
            for talk in said(split, 1, 3000):
                roles = [role for role, _ in talk]
                if roles[0] == "system":
                    roles = roles[1:]
                self.assertTrue(2 <= len(roles) <= 24)
                self.assertEqual(roles, ["user", "assistant"] * (len(roles) // 2))

    def test_texts_are_clean(self):
        for role, line in [turn for talk in said("train", 2, 5000) for turn in talk]:
            self.assertTrue(line.strip() == line and line, (role, line))
            self.assertNotRegex(line, r"[{}\[\]|]|  |None", (role, line))

    def test_same_seed_same_text(self):
        self.assertEqual(said("train", 3, 200), said("train", 3, 200))
        self.assertNotEqual(said("train", 3, 20), said("train", 4, 20))
        self.assertEqual(text.evaluation(5), text.evaluation(5))

    def test_sums_are_partitioned_and_right(self):
        from text import sums
        for split in ("train", "eval"):
            for role, line in [turn for talk in said(split, 6, 4000) for turn in talk]:
                found = re.fullmatch(r"(\d+) ([-+x]) (\d+) = (-?\d+)\.", line)
                if role == "assistant" and found:
                    a, b = int(found[1]), int(found[3])
                    self.assertEqual(sums.RESULT[found[2]](a, b), int(found[4]))
                    if split == "train" and a < 100 and b < 100 and not (found[2] == "x" and (a == b or a == 2)):
                        self.assertFalse(sums.kept_back(found[2], a, b), line)

    def test_values_are_partitioned(self):
        from text import world
        for values in (world.NAMES, world.TOWNS, world.OBJECTS, world.PLACES, world.JOBS, world.PET_NAMES):
            self.assertFalse(set(values.train) & set(values.eval))
            self.assertGreater(len(values.eval), 1)

    def test_help_table(self):
        from text import help as manual
        self.assertGreater(len(manual.TABLE), 50)
        for name, does in manual.TABLE.items():
            self.assertRegex(does, r"^[a-z]+s ", name)

    def test_long(self):
        talk = text.long_conversation(random.Random(1), "eval", 1200)
        self.assertGreater(sum(len(line.split()) for _, line in talk), 1200)

    def test_lookups_use_no_wording_kept_back(self):
        from text import recall, told
        kept = [recall.PAIR_TELL, recall.PAIR_WHO, recall.PAIR_WHAT, recall.TELL]
        kept += [told.BY_KEY[key].asks for key in ("lives:{who}", "has:{who}", "likes:{who}", "put:{o}")]
        verbs = "(?:%s)" % "|".join(verb for verb, _, _ in recall._VERBS)
        bases = [re.sub(r"\\{[a-z]+\\}", ".+", re.escape(text).replace(r"\{verb\}", verbs)) for wordings in kept for base in wordings.eval for text in base]
        kept_back = re.compile("|".join(bases), re.IGNORECASE)
        rng = random.Random(10)
        for easy in (True, False):
            for role, line in [turn for _ in range(2000) for turn in text.lookups(rng, easy)]:
                self.assertTrue(line.strip() == line and line, (role, line))
                self.assertNotRegex(line, r"[{}\[\]|]|  |None", (role, line))
                self.assertIsNone(role == "user" and kept_back.fullmatch(line) or None, line)

    def test_own_answers_are_accepted(self):
        for item in text.evaluation(7):
            self.assertEqual(item["turns"][-1][0], "user")
            self.assertTrue(text.accepted(item, item["answer"]), item)
            self.assertFalse(text.accepted(item, "I like trains."), item)

    def test_answers_of_other_items_are_not_accepted(self):
        items = text.evaluation(8)
        for kind in sorted({item["kind"] for item in items}):
            mine = [item for item in items if item["kind"] == kind]
            wrong = sum(text.accepted(a, b["answer"]) for a, b in zip(mine, mine[1:] + mine[:1]))
            allowed = {"unknown": 1.0, "smalltalk": 0.6}.get(kind, 0.15)
            self.assertLessEqual(wrong, allowed * len(mine), kind)

    def test_evaluation_questions_are_not_trained(self):
        trained = {line for talk in said("train", 9, 20000) for role, line in talk if role == "user"}
        asked = [item["turns"][-1][1] for item in text.evaluation(9) if item["kind"] != "recall"]
        self.assertLess(sum(question in trained for question in asked), 0.03 * len(asked))


if __name__ == "__main__":
    unittest.main()
