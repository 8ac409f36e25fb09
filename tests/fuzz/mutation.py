"""Small changes of what is right into what strangers might give, and what may come of it."""

import copy

from duet.cli import main

NUMBERS = (
    *(
        "0",
        "-1",
        "1",
        "2",
        "3",
        "7",
        "0.5",
        "-0.0",
        "1e3",
        "1e-300",
        "1e400",
        "1e18",
        "10000000000",
        "nan",
        "inf",
        "-inf",
    ),
    *(
        str(2**31),
        str(2**32),
        str(2**63),
        str(2**64),
        "-" + str(2**64),
        "9" * 400,
        "9" * 5000,
        "0x10",
        "1_000",
        "٣",
        "1,5",
    ),
)
TEXTS = (
    *(
        "",
        " ",
        "-",
        "--",
        "---",
        "=",
        ":",
        ":x",
        "x:",
        "no_such_module:Name",
        "/",
        "..",
        "../..",
        "/dev/null",
        "~",
        ".",
    ),
    *("\x00", "\n", "a\nb", "\x1b[31m", "\ud800", "é" * 300, "[" * 3000, "{" * 50, "%s%n", "*", "?", "[a", "a" * 5000),
    *("null", "true", "no", "rot360", "rot4", "hue", "duet", "essl", "demo", "!!bool 3", "!!timestamp x", "&a", "*a"),
)
NEAR = (-1, 0, 1, 2, 3, 4, 8, 0.5, 0.1, 1e-9, 1e9, "1", "2.0", 10**10, 2**64, 10**30)
LIKELY = ("0", "1", "2", "4", "0.5", "rot4", "hue", "duet", "true", "auto")
VALUES = (
    *(None, True, False, 0, -1, 1, 2, 0.5, 10**10, 2**63, 2**64, -(2**64), 10**400, 1e308, float("nan"), float("inf")),
    *("", "x", "rot4", "null", "\x00", "[" * 300, "a" * 5000, "../../etc/passwd", "timm:hf-hub:a/b", "os:system"),
    *([], {}, [[]], [None], {"a": None}, [1] * 300, {"others": 1}, {"others": "x"}, [{"name": "a"}], {"name": []}),
)


def outcome(capsys, words):
    """The exit code of a command and what it said on standard error; code 0 is a plan, 2 a refusal."""
    code = main(list(words))
    return code, capsys.readouterr().err


def fault(code, said):
    """What is wrong with an outcome that is neither a plan nor one short line; None where nothing is."""
    if code == 0:
        return None
    if code != 2:
        return f"exit code {code}"
    lines = said.splitlines()
    if len(lines) != 1 or not lines[0].startswith("duet"):
        return f"{len(lines)} lines"
    if len(lines[0]) > 1100 or not lines[0].isprintable():
        return "a line that is long or would act on a terminal"
    return None


def mutate_words(words, random, flags):
    """A command line with one to three changes: values, flags, order, repetitions, losses, letters."""
    words = list(words)
    for _ in range(random.choice((1, 1, 2, 3))):
        starts = [place for place, word in enumerate(words) if word.startswith("--")]
        place = random.choice((random.randrange(len(words) + 1), *starts, len(words)))
        kind = random.randrange(8)
        if kind <= 3:
            words[place:place] = [random.choice(flags), _word(random)]
        elif kind == 4:
            words[place:place] = random.choice(([random.choice(flags)], [_word(random)]))
        elif kind == 5:
            del words[place : place + 1]
        elif kind == 6 and place < len(words):
            words[place] = _word(random)
        elif place < len(words):
            words[place] = mutate_text(words[place], random)
    return words


def _word(random):
    return random.choice(random.choice((LIKELY, NUMBERS, TEXTS)))


def mutate_text(text, random, letters=":-[]{}!&*#,'\"\n\t\x00 |>%@`0a=?<~"):
    """A text with letters lost, doubled, put in or changed."""
    letters_of = list(text)
    for _ in range(random.choice((1, 1, 2, 5))):
        place = random.randrange(len(letters_of) + 1)
        kind = random.randrange(5)
        if kind == 0:
            letters_of[place : place + random.choice((1, 1, 9))] = []
        elif kind == 1:
            letters_of[place:place] = random.choice(letters)
        elif kind == 2:
            letters_of[place:place] = random.choice(NUMBERS + TEXTS)
        elif kind == 3:
            letters_of[place:place] = letters_of[max(0, place - 20) : place]
        elif place < len(letters_of):
            letters_of[place] = random.choice(letters)
    return "".join(letters_of)


def mutate_tree(tree, random, values=VALUES, near=NEAR):
    """Plain values with one to three changes anywhere in them: another value, one less, one more, one of elsewhere."""
    tree = copy.deepcopy(tree)
    for _ in range(random.choice((1, 1, 2, 3))):
        places = list(_places(tree))
        holder, key = random.choice(places)
        kind = random.randrange(8)
        if kind <= 4 and isinstance(holder[key], int | float) and random.random() < 0.7:
            holder[key] = random.choice(near)
        elif kind <= 4:
            holder[key] = copy.deepcopy(random.choice(values))
        elif kind == 5:
            del holder[key]
        elif kind == 6:
            other, there = random.choice(places)
            # A copy: a value within itself is a thing of YAML's only.
            holder[key] = copy.deepcopy(other[there]) if there in _keys(other) else None
        elif isinstance(holder, dict):
            holder[random.choice(("", "name", "x" * 300, "seed", "lr", "\n"))] = copy.deepcopy(random.choice(values))
        else:
            holder.append(copy.deepcopy(random.choice(values)))
        if not tree:
            break
    return tree


def _keys(holder):
    return holder if isinstance(holder, dict) else range(len(holder))


def _places(tree):
    for key in list(_keys(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])
