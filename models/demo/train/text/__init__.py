# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of the demo model: conversations to train on, and questions to be judged by. Standard library only."""
from .lookup import conversation as lookups
from .plan import conversation, long_conversation
from .items import accepted, evaluation, recall_question

__all__ = ["accepted", "conversation", "evaluation", "long_conversation", "lookups",
           "recall_question"]
