# SPDX-License-Identifier: GPL-3.0-or-later
"""Help about moechat: the commands and keys of ../help_table.txt from both sides, and what moechat is."""
from pathlib import Path

from .draw import Wordings, is_kept_back, pick, upper_first
from .talk import BARE, CLEAN

TABLE_PATH = Path(__file__).resolve().parent.parent / "help_table.txt"
TABLE = dict(line.split("\t") for line in TABLE_PATH.read_text(encoding="utf-8").splitlines())


def _is_key(name):
    return not name.startswith("/")


# What somebody wants who needs the entry: each line is a phrase that follows "How do I".
GOALS = {
    "/help": "see the help\nget help\nopen the help\nfind help\nread the help text\nsee all commands\nlist the commands",
    "/keys": "see the keys\nlist all keys\nsee which keys there are\nget a list of the keys\nlearn the keys\nlook up the shortcuts\nsee the keyboard shortcuts",
    "/new": "start a new chat\nbegin a new chat\nstart over\nstart again from the beginning\nopen a fresh chat\nbegin a new conversation\nstart a new session\nreset the chat",
    "/clear": "clear the chat\nclear the conversation\nclear everything\nempty the chat\nwipe the chat clean\nclear this session",
    "/save": "save the chat\nsave this conversation\nsave my chat\nkeep this chat\nstore the chat\nsave the session under a name\nsave everything",
    "/load": "load a chat\nopen a saved chat\nload an old chat\nopen an old chat\nget a saved chat back\nload a saved session\nload a conversation",
    "/resume": "resume a chat\nresume an old chat\ncontinue an old chat\nresume a session\ngo on with a saved chat\nresume my last chat",
    "/switch": "switch to another chat\nchange to another chat\nswitch between chats\njump to another chat\ngo to another session\nswitch sessions",
    "/sessions": "see my chats\nlist the saved chats\nlist my sessions\nfind my old chats\nsee all saved chats\nshow all sessions\nsee which chats I have",
    "/rename": "rename the chat\nchange the name of the chat\ngive the chat another name\nrename this session\nname the chat differently\ngive this chat a new name",
    "/delete": "delete a chat\ndelete a saved chat\nremove a chat\nget rid of a saved chat\ndelete a session\nerase an old chat\nthrow away a saved chat",
    "/undo": "undo\nundo my last message\ntake back the last turn\ntake back my last message\nundo the last turn\ngo back one turn\ngo one step back\nremove the last turn\nundo something",
    "/retry": "retry\nget another answer\nget a different answer\nask for a new answer\nregenerate the answer\nrepeat the last question\nhave the answer made again\ntry again",
    "/edit": "edit a message\nchange a message that I sent\nedit what I sent\nchange my last message\nedit my last message\ncorrect a message that I sent\nfix a sent message",
    "/fork": "fork the chat\nfork this chat\nmake a copy of the chat to go on from here\nstart a second chat from this one\nbranch the chat\nmake a branch of this chat\nsplit the chat in two",
    "/tree": "see the branches\nsee the tree of the chat\nshow the branches of the chat\nlook at the tree\nsee all branches\nview the chat tree",
    "/system": "set the system prompt\nchange the system prompt\ngive you a system prompt\nwrite a system prompt\nset a system message\nuse a system prompt",
    "/set": "change a setting\nchange the settings\nset the temperature\nset the seed\nchange the temperature\nchange the seed\nset an option\nadjust the temp",
    "/think": "turn thinking off\nturn thinking on\nswitch the thinking off\nhide the thinking\nshow the thinking\ndisable thinking\nenable thinking",
    "/stats": "see the speed\nsee the statistics\nshow the stats\nsee the tokens per second\nsee the cache figures\nfind out how fast you are\nsee the hit rate",
    "/heat": "see the heat map\nshow the heat map\nsee which experts are used\nsee the experts at work\nlook at the heat of the experts\nopen the heat map\nsee how often each expert is used",
    "/inspect": "inspect the tokens\nsee the tokens of an answer\nsee the probabilities\nlook at the token probabilities\ninspect an answer\nsee the tokens\nexamine an answer token by token",
    "/file": "add a file\nattach a file\nput a file into my message\nload a text file\ninclude a file\nsend you a file\ngive you a text file",
    "/copy": "copy the answer\ncopy the last answer\ncopy a code block\ncopy some code\ncopy what you said\ncopy your answer\nput the answer on the clipboard",
    "/export": "export the chat\nexport the chat as json\nexport the chat as markdown\nwrite the chat to a file\nget the chat as a text file\nexport this conversation\nturn the chat into a file",
    "/log": "see the log\nshow the log\nread the log messages\nlook at the log\nopen the log\nfind the log\nsee the messages of the program",
    "/quit": "quit\nexit\nleave\nleave moechat\nget out of here\nclose moechat\nend the program\nquit the program\nstop moechat\nquit moechat\nclose the program",
    "Enter": "send a message\nsend my message\nsend what I typed\nsend it\nsubmit my text",
    "Alt-Enter": "start a new line\nmake a new line\nwrite several lines\ntype more than one line\nput a line break\nadd a line break\nenter a newline\nwrite a message with two lines",
    "Ctrl-C": "stop an answer\nstop the answer\ninterrupt the answer\nmake you stop\nstop you from talking\ncancel an answer\nclear the draft\nabort the answer\nstop the model",
    "Esc": "close a window\nclose the help window\nclose an overlay\nget rid of the window on top\nclose a pop-up window",
    "PgUp": "scroll up\nscroll one page up\nsee older messages\ngo one page up\npage up\nscroll back\nlook at what was said before",
    "PgDn": "scroll down\nscroll one page down\ngo one page down\npage down\nscroll forward",
    "Alt-k": "scroll one line up\nscroll up by one line\nmove up a line\ngo up a single line\nscroll up line by line",
    "Alt-j": "scroll one line down\nscroll down by one line\nmove down a line\ngo down a single line\nscroll down line by line",
    "Ctrl-Home": "jump to the start of the chat\ngo to the top\nsee the beginning of the chat\njump to the top\ngo to the first message",
    "Ctrl-End": "jump to the end of the chat\ngo to the bottom\njump to the bottom\nsee the end of the chat\ngo to the last message",
    "Alt-g": "follow the answer again\nfollow the end of the chat\nturn following back on\nfollow the output\nmake the view follow the answer",
    "Alt-/": "search the chat\nsearch in the chat\nfind a word in the chat\nlook for something in the chat\nsearch the transcript\nfind text in our conversation\nsearch for a word",
    "n": "go to the next match\nfind the next match\njump to the next hit of the search\nsee the next search result\nmove to the next match",
    "N": "go to the previous match\nfind the previous match\ngo back to the match before\nsee the previous search result\nmove to the previous match",
    "Alt-s": "switch the stats view\nchange the stats view\nopen the stats pane\ntoggle the stats\nmake the stats pane go away",
    "Alt-o": "fold the thinking\nunfold the thinking\nfold up the thinking\nopen the folded thinking\ncollapse the thinking",
    "Alt-v": "see the bare text\nshow the bare text\nselect text with the mouse\nsee the plain text of the chat\nget the bare view\nview the raw text",
    "Alt-z": "zoom the chat\nzoom\nmake the chat pane bigger\nzoom in on the chat\nuse zoom",
    "Ctrl-L": "redraw the screen\nrepair the screen\nrefresh the screen\nclean up a messy screen\nrepaint the screen\ndraw the screen again",
    "Ctrl-Z": "suspend moechat\nsend moechat to the background\npause the program\ngo back to the shell for a moment\nsuspend the program\nput moechat in the background",
    "Ctrl-R": "search the history\nfind something that I typed before\nsearch my old inputs\nsearch what I typed\nsearch the input history\nlook through my earlier inputs",
    "Ctrl-X Ctrl-E": "open my message in an editor\nuse an editor\nuse my own editor\nwrite in an external editor\nedit the draft in vim\nopen an editor",
    "Tab": "complete a command\ncomplete a path\ncomplete a name\nget completion\ncomplete what I type\nauto-complete a command",
}
HOW = Wordings("""
How do I {g}?
How do I {g}?
How can I {g}?
How can I {g}?
I want to {g}.
How to {g}?
{g}?
{g}
How would I {g}?
What do I do to {g}?
What must I do to {g}?
How does one {g}?
Is there a way to {g}?
Can I {g}?
I would like to {g}.
Tell me how to {g}.
Can you tell me how to {g}?
How do you {g} in moechat?
In moechat, how do I {g}?
How could I {g}?
Help me to {g}.
I need to {g}.
Please explain how to {g}.
Do you know how to {g} here?
Show me how to {g}.
Where can I {g}?
What is the way to {g}?
How do you {g}?
How can you {g} in moechat?
How can one {g}?
How should I {g}?
How can I {g} here?
Could you tell me how to {g}?
What is the best way to {g}?
""")
HOW_COMMAND = Wordings("""
Which command do I use to {g}?
What command lets me {g}?
What do I type to {g}?
What is the command to {g}?
Is there a command to {g}?
Which command do I need to {g}?
What should I type if I want to {g}?
With which command can I {g}?
command to {g}?
What should I enter to {g}?
""")
HOW_KEY = Wordings("""
Which key do I press to {g}?
What do I press to {g}?
Which key lets me {g}?
What is the key to {g}?
Is there a key to {g}?
Which key do I need to {g}?
What key should I press if I want to {g}?
With which key can I {g}?
key to {g}?
What should I press to {g}?
""")
WHAT = Wordings("""
What does {n} do?
What does {n} do?
What is {n}?
What is {n} for?
{n}?
What does {n} mean?
Explain {n}.
What happens with {n}?
Tell me about {n}.
What can I do with {n}?
What do I use {n} for?
Can you explain {n}?
When do I use {n}?
How does {n} work?
What is the use of {n}?
{n}: what is that?
What is {n} good for?
Describe {n}.
Tell me what {n} does.
What's {n}?
Do you know what {n} does?
What will {n} do?
What happens when I use {n}?
""")
WHAT_KEY = Wordings("""
What happens when I press {n}?
What does the key {n} do?
What does the {n} key do?
What happens if I press {n}?
What is the key {n} for?
What will happen when I hit {n}?
Why would I press {n}?
I pressed {n}. What does it do?
""")
WHAT_COMMAND = Wordings("""
What does the command {n} do?
What happens when I type {n}?
What does the {n} command do?
What happens if I type {n}?
What is the command {n} for?
What is the {n} command?
I typed {n}. What does it do?
What will happen when I enter {n}?
""")

# Questions about moechat itself: wordings, answer, the part that counts.
ABOUT = (
    ("help\nhelp!\nhelp me\nI need help.\nI need some help here.\nPlease help.\nhelp please\nCould you help me?\nCan you help me?",
     "Gladly. Ask me something, or type /help to see all commands and /keys to see all keys.", "/help"),
    ("What commands are there?\nWhich commands are there?\nList the commands.\nWhat can I type?\nShow me the commands.\nTell me the commands.\nWhat commands do you have?\nWhich commands can I use?\ncommands?",
     "Some commands are /new, /save, /load, /undo, /retry, /fork, /stats and /quit. Type /help to see them all.", "/help"),
    ("What keys are there?\nWhich keys are there?\nTell me the keys.\nWhat keys can I press?\nShow me the keys.\nWhich keys can I use?\nWhat are the shortcuts?",
     "Some keys are Enter to send, Alt-Enter for a new line, Ctrl-C to stop an answer and PgUp to scroll. Type /keys to see them all.", "/keys"),
    ("What is moechat?\nWhat's moechat?\nExplain moechat.\nTell me about moechat.\nWhat does moechat do?\nWhat kind of program is moechat?\nWhat program is this?\nWhat is this program?\nWhat is this?\nDescribe moechat.",
     "moechat is a chat program for the terminal. It runs mixture-of-experts models and reads their experts from disk when they are needed.", "experts"),
    ("What is a mixture of experts?\nWhat does mixture of experts mean?\nWhat does MoE mean?\nWhat is MoE?\nExplain mixture of experts.\nWhat is a mixture-of-experts model?\nHow does a mixture of experts work?\nWhat does MoE stand for?",
     "A mixture of experts is a model with many small networks, the experts. For each token a router chooses a few of them, so only a part of the model works at a time.", "router"),
    ("What is an expert?\nWhat are experts?\nWhat does expert mean here?\nExplain experts.\nWhat is an expert in a model?\nTell me what an expert is.\nWhat do the experts do?",
     "An expert is a small network inside the model. The router chooses a few experts for each token.", "router"),
    ("What is the router?\nWhat does the router do?\nExplain the router.\nWhat is a router in a model?\nTell me about the router.\nHow are experts chosen?\nWho chooses the experts?",
     "The router is the part of the model that chooses a few experts for each token.", "chooses"),
    ("What is a token?\nWhat are tokens?\nExplain tokens.\nWhat does token mean?\nTell me what a token is.\nWhat is meant by a token?",
     "A token is a piece of text, a short word or a part of a word. I read and write token by token.", "piece of text"),
    ("What is the expert cache?\nWhat does the expert cache do?\nExplain the expert cache.\nWhat is the cache for?\nWhat does the cache do?\nTell me about the expert cache.\nWhat is cached?",
     "The expert cache keeps the experts that were used lately in memory, so that they need not be read from disk again.", "memory"),
    ("What is a cache hit?\nWhat does hit mean?\nWhat is a hit?\nExplain a cache hit.\nWhat does cache hit mean?\nTell me what a hit is.",
     "A hit means that an expert was already in memory and did not have to be read from disk.", "already in memory"),
    ("What is a cache miss?\nWhat does miss mean?\nWhat is a miss?\nExplain a cache miss.\nWhat does cache miss mean?\nTell me what a miss is.",
     "A miss means that an expert had to be read from disk first.", "read from disk"),
    ("What is prefill?\nWhat does prefill mean?\nExplain prefill.\nWhat happens during prefill?\nTell me about prefill.\nWhy does it say prefill?",
     "Prefill is when the model reads your message, before it writes the first token of its answer.", "reads your message"),
    ("What is a system prompt?\nWhat does system prompt mean?\nExplain the system prompt.\nWhat is the system prompt for?\nTell me about system prompts.\nWhat is meant by a system prompt?",
     "A system prompt is a text at the start that tells the model how to behave. You set it with /system.", "/system"),
    ("What is the temperature?\nWhat does temperature mean?\nWhat does temp do?\nExplain the temperature setting.\nWhat is temp?\nTell me about the temperature setting.",
     "The temperature says how freely I choose words: 0 always takes the likeliest one. Change it with /set temp.", "likeliest"),
    ("What is the seed?\nWhat does the seed do?\nExplain the seed.\nWhat is a seed for?\nTell me about the seed.\nWhy is there a seed?",
     "The seed starts the dice of the sampling. The same seed and prompt give the same answer. Change it with /set seed.", "same answer"),
    ("Is my data safe?\nDo you send my data somewhere?\nIs this private?\nDoes anybody read this?\nDo you need the internet?\nAre you online?\nWhere does this run?\nDo you run on my computer?\nIs what I write sent to a server?",
     "I run on this computer only, and nothing that you write is sent anywhere.", "this computer"),
    ("Are my chats saved?\nIs this chat saved?\nDo you save our chats?\nIs my chat saved by itself?\nDo I have to save?\nWill this chat be lost when I quit?\nIs there an autosave?",
     "Yes, the chat is saved after every turn. Use /sessions to see your chats and /load to open one.", "saved after every turn"),
    ("Where are my chats stored?\nWhere are the sessions?\nIn which folder are my chats?\nWhere do you store the chats?\nWhere are the saved chats?\nWhere can I find the session files?",
     "The chats are stored in ~/.local/share/moechat.", "~/.local/share/moechat"),
    ("Where is the config file?\nWhere is the configuration?\nIn which folder is the config?\nWhere do you keep your settings?\nWhere are the settings stored?\nWhere can I find the config file?",
     "The config file is ~/.config/moechat/config.", "~/.config/moechat/config"),
    ("How do I ask from the shell?\nHow do I use moechat in a script?\nHow can I use moechat without chatting?\nCan I use moechat in a pipe?\nHow do I run a single prompt?\nHow do I get one answer in the shell?",
     'Use moechat run -p "your question". The answer goes to the standard output.', "moechat run"),
    ("How do I list the devices?\nWhich devices are there?\nHow do I see my devices?\nWhich command shows the OpenCL devices?\nHow can I see which GPU is used?\nWhat devices can I use?",
     "Run moechat devices in the shell: it lists the OpenCL devices.", "moechat devices"),
    ("How do I measure the speed?\nHow do I run a benchmark?\nIs there a benchmark?\nHow can I benchmark moechat?\nWhich command runs a benchmark?\nHow do I test the speed of my machine?",
     "Run moechat bench in the shell: it measures the speed.", "moechat bench"),
    ("How do I use another model?\nCan I use another model?\nHow do I choose a model?\nHow do I change the model?\nHow can I load a bigger model?\nWhich option chooses the model?",
     "Start moechat with -m and the folder of the model.", "-m"),
    ("How do I send a slash?\nHow do I write a message that begins with a slash?\nHow can I send a text that starts with a slash?\nWhat if my message starts with a slash?\nHow do I type a literal slash?",
     "Type two slashes: //x sends /x as a message.", "two slashes"),
    ("Can you show pictures?\nCan you draw?\nCan you paint a picture?\nCan you make images?\nDraw me a cat.\nDraw a picture.", "I cannot draw. I only write short texts.", "cannot draw"),
    ("Why are you slow?\nWhy is it slow?\nWhy does it take so long?\nWhat makes you slow?\nWhy is the answer slow?\nWhy do I have to wait?",
     "Experts that are not in memory have to be read from disk first. A bigger expert cache makes it faster.", "from disk"),
    ("Why did the answer stop?\nWhy did you stop?\nWhy was the answer cut off?\nWhat made you stop?\nYou stopped in the middle, why?",
     "An answer stops when it is done, when you press Ctrl-C or when it reaches its limit of tokens.", "limit"),
    ("Can I type while you answer?\nCan I write while you are answering?\nWhat happens when I press Enter while you answer?\nMay I type ahead?\nWhat if I send a message while you are busy?",
     "Yes. A message that you send while I answer waits in a queue; Esc sends it at once.", "queue"),
)
_ABOUT = tuple((Wordings(asks), answer, accept) for asks, answer, accept in ABOUT)
_GOALS = tuple((name, Wordings(goals)) for name, goals in GOALS.items())
_NAMES = tuple(TABLE)
# Two keys stop an answer and two copy it: both are right answers to the same goal.
_SAME = {"/quit": ("/quit", "/exit", "/bye", "Ctrl-D"), "/new": ("/new", "/clear"), "/clear": ("/clear", "/new"), "/load": ("/load", "/resume"),
         "/resume": ("/resume", "/load"), "/copy": ("/copy", "Alt-w"), "Alt-Enter": ("Alt-Enter", "Ctrl-J"), "Ctrl-C": ("Ctrl-C", "Esc"),
         "/help": ("/help", "F1"), "/stats": ("/stats", "Alt-s"), "Alt-s": ("Alt-s", "/stats")}
_OFTEN = ("/quit", "/undo", "/retry", "/save", "/new", "/help", "Ctrl-C", "/stats", "/load", "/fork", "/heat", "Alt-Enter")


def _cap(talk, text):
    return upper_first(text) if talk.style in (CLEAN, BARE) and not text.startswith(("n ", "n:", "n?")) and text != "n" else text


_WHERE = (" in moechat", " in moechat", " with moechat", " here", " in this program", " in the chat", " on the keyboard")


def _otherwise(talk, frame, phrase):
    """The same wish with a word more or less, or said to be about this program; never as it is kept back. Training only."""
    if "moechat" in frame or talk.chance(0.4):
        return frame, talk.loosened(phrase, talk.chance(0.5))
    end = frame[-1] if frame[-1] in ".?!" else ""
    longer = frame[:len(frame) - len(end)] + pick(talk.rng, _WHERE) + end
    return (frame if is_kept_back(longer) else longer), phrase


def goal(talk):
    """Somebody wants something: the answer names the command or key and says what it does."""
    name, goals = pick(talk.rng, _GOALS)
    if talk.chance(0.2):
        name = pick(talk.rng, _OFTEN)
        goals = _BY_NAME[name]
    key = _is_key(name)
    phrase = talk.pick(goals)
    frame = talk.pick(HOW if talk.chance(0.72) else HOW_KEY if key else HOW_COMMAND)
    if talk.split == "train" and talk.chance(0.25):
        frame, phrase = _otherwise(talk, frame, phrase)
    user = _cap(talk, talk.user(frame, g=phrase))
    answer = "%s %s: it %s." % ("Press" if key else "Type", name, TABLE[name])
    return [(user, answer, _SAME.get(name, (name,)), ())]


_BY_NAME = dict(_GOALS)


def what(talk):
    """Somebody asks what a command or key does."""
    name = pick(talk.rng, _NAMES)
    key = _is_key(name)
    frame = (WHAT_KEY if key else WHAT_COMMAND) if name in ("n", "N", "Enter", "Tab") or talk.chance(0.35) else WHAT
    shown = name if not key or talk.chance(0.5) or len(name) == 1 else talk.low(name)
    if key and "-" in name and talk.chance(0.12):
        shown = shown.replace("-", "+")
    if name[0] == "/" and talk.chance(0.06):
        frame, shown = WHAT_COMMAND, name[1:]
    user = _cap(talk, talk.user(frame, n=shown))
    return [(user, "%s %s." % (name, TABLE[name]), (TABLE[name],), ())]


def about(talk):
    asks, answer, accept = _ABOUT[0 if talk.chance(0.12) else int(talk.rng.random() * len(_ABOUT))]
    return [(_cap(talk, talk.user(asks)), answer, (accept,), ())]


UNKNOWN_COMMAND = Wordings("""
What does {n} do?
What is {n}?
Explain {n}.
What is {n} for?
{n}?
Tell me about {n}.
""")


def no_such(talk):
    """A command that does not exist."""
    from .world import new_word
    name = "/" + new_word(talk)
    if name in TABLE:
        return []
    return [(talk.user(UNKNOWN_COMMAND, n=name), "There is no command %s. Type /help to see all commands." % name, ("no command",), ())]
