"""Tokens to a syntax tree, with the macros expanded (cel-go's grammar and parser).

After a stray token in the place of an operand the parser goes on, as cel-go's generated one does; other syntax errors
end it at once, where cel-go's tries to go on and reports more, with texts that depend on its tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.cel import ast, macros
from drabridge.core.cel.diagnostics import Issue, SourceError
from drabridge.core.cel.lexer import Token, integer, tokens
from drabridge.core.cel.trampoline import Step, run

RECURSION_LIMIT: Final = 250
"""Nesting of one grammar rule beyond which cel-go gives up."""

RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "package", "namespace", "null", "return", "true", "var", "void", "while",
    }
)  # fmt: skip

_WORDS: Final = frozenset({"in", "true", "false", "null"})
"""Words that are tokens of their own, so that they are no identifiers even behind a dot."""

_BINARY: Final = {
    "||": ("_||_", 1), "&&": ("_&&_", 2),
    "<": ("_<_", 3), "<=": ("_<=_", 3), ">=": ("_>=_", 3), ">": ("_>_", 3),
    "==": ("_==_", 3), "!=": ("_!=_", 3), "in": ("@in", 3),
    "+": ("_+_", 4), "-": ("_-_", 4), "*": ("_*_", 5), "/": ("_/_", 5), "%": ("_%_", 5),
}  # fmt: skip
"""The function and the precedence of each binary operator."""

_OPERAND_SYMBOLS: Final = frozenset("[{(.-!")

_EXPECTED: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A tree, the text it was read from, and by the ids of its nodes where they stand in it.

    `offsets` has the place that messages name. `spans` has the first code point and the one behind the last, brackets
    around an expression included; a macro has those of its call, and what it expands to has none but for its arguments.
    """

    source: str
    root: ast.Node
    offsets: dict[int, int]
    spans: dict[int, tuple[int, int]]


def parse(source: str) -> Parsed:
    """Parse an expression. Raises SourceError with cel-go's texts where they do not depend on its parser generator."""
    parser = _Parser(source)
    try:
        root = parser.start()
    except macros.TooManyNodes:
        raise SourceError(source, [Issue(-1, f"expands to more than {macros.MOST_NODES} nodes")]) from None
    if parser.issues:
        raise SourceError(source, parser.issues)
    return Parsed(source, root, parser.nodes.offsets, parser.spans)


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator that waits for its right operand. `?` waits for `:`, which waits for the end."""

    symbol: str
    function: str
    precedence: int
    offset: int


class _Parser:
    """Reads tokens into a tree. Methods that meet an expression inside of theirs are steps of a trampoline."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.issues: list[Issue] = []
        self.nodes = macros.Nodes()
        self.spans: dict[int, tuple[int, int]] = {}
        self._tokens = tokens(source)
        self._position = 0
        self._nesting = 0
        self._depths: dict[int, int] = {}

    # Tokens

    @property
    def _token(self) -> Token:
        return self._tokens[self._position]

    def _next(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _at(self, *texts: str) -> bool:
        token = self._token
        return token.text in texts and token.kind in ("symbol", "name")

    def _take(self, text: str) -> Token | None:
        return self._next() if self._at(text) else None

    def _expect(self, text: str) -> Token:
        if token := self._take(text):
            return token
        raise self._syntax(f"mismatched input '{self._token.text}' expecting '{text}'")

    def _spanned(self, node: ast.Node, start: int) -> ast.Node:
        """Note that a node reaches from an offset to the end of the token that was read last."""
        last = self._tokens[self._position - 1]
        self.spans[node.id] = start, last.offset + len(last.text)
        return node

    def _around(self, node: ast.Node, first: ast.Node, last: ast.Node) -> ast.Node:
        """Note that a node reaches from the start of one operand to the end of another one."""
        self.spans[node.id] = self.spans[first.id][0], self.spans[last.id][1]
        return node

    def _syntax(self, message: str) -> SourceError:
        return SourceError(self.source, [*self.issues, Issue(self._token.offset, f"Syntax error: {message}")])

    # Grammar

    def start(self) -> ast.Node:
        root = run(self._expression())
        if self._token.kind != "end":
            fault = "extraneous" if self._tokens[self._position + 1].kind == "end" else "mismatched"
            raise self._syntax(f"{fault} input '{self._token.text}' expecting <EOF>")
        return root

    def _expression(self) -> Step[ast.Node]:
        self._nest()
        operands: list[ast.Node] = []
        waiting: list[_Operator] = []
        while True:
            operands.append((yield self._unary()))
            operator = self._operator(waiting, operands)
            if operator is None:
                break
            waiting.append(operator)
        self._reduce(waiting, operands, 0)
        for operator in waiting:
            if operator.symbol == "?":
                raise self._syntax(f"mismatched input '{self._token.text}' expecting ':'")
        self._nesting -= 1
        return operands[0]

    def _nest(self) -> None:
        self._nesting += 1
        if self._nesting > RECURSION_LIMIT:
            raise SourceError(self.source, [Issue(-1, f"expression recursion limit exceeded: {RECURSION_LIMIT}")])

    def _operator(self, waiting: list[_Operator], operands: list[ast.Node]) -> _Operator | None:
        """Take the operator that comes next, after the work of those that bind tighter; None at the end."""
        token = self._token
        if token.kind not in ("symbol", "name"):
            return None
        if token.text in ("?", ":"):
            return self._ternary(waiting, operands)
        known = _BINARY.get(token.text)
        if known is None:
            return None
        function, precedence = known
        self._next()
        # A chain of && or of || waits until it is whole: its tree is balanced.
        self._reduce(waiting, operands, precedence + (precedence < 3))
        return _Operator(token.text, function, precedence, token.offset)

    def _ternary(self, waiting: list[_Operator], operands: list[ast.Node]) -> _Operator | None:
        token = self._token
        self._reduce(waiting, operands, 1)
        inside = bool(waiting) and waiting[-1].symbol == "?"
        if token.text == ":":
            if not inside:
                return None
            self._next()
            self._nest()
            question = waiting.pop()
            return _Operator(":", "_?_:_", 0, question.offset)
        if inside:
            raise self._syntax("mismatched input '?' expecting ':'")
        self._next()
        return _Operator("?", "", 0, token.offset)

    def _reduce(self, waiting: list[_Operator], operands: list[ast.Node], precedence: int) -> None:
        """Apply the waiting operators that bind as tight as this precedence or tighter."""
        while waiting and waiting[-1].precedence >= precedence and waiting[-1].symbol != "?":
            operator = waiting[-1]
            if operator.precedence in (1, 2):
                self._logic(waiting, operands, operator)
                continue
            waiting.pop()
            count = 3 if operator.symbol == ":" else 2
            self._nesting -= operator.symbol == ":"
            parts = tuple(operands[-count:])
            del operands[-count:]
            id_ = self.nodes.new(operator.offset)
            call = self._around(ast.Call(id_, operator.function, None, parts), parts[0], parts[-1])
            operands.append(self._deep(call, *parts))

    def _logic(self, waiting: list[_Operator], operands: list[ast.Node], last: _Operator) -> None:
        """Apply a whole chain of && or ||."""
        chain = []
        while waiting and waiting[-1].symbol == last.symbol:
            chain.append(waiting.pop())
        terms = operands[-len(chain) - 1 :]
        del operands[-len(chain) - 1 :]
        ids = [self.nodes.new(operator.offset) for operator in reversed(chain)]
        tree = self._balanced(last.function, terms, ids, 0, len(ids) - 1)
        operands.append(self._deep(tree, *terms, level=0))

    def _balanced(self, function: str, terms: list[ast.Node], operators: list[int], low: int, high: int) -> ast.Node:
        """Make a balanced tree of a chain of && or ||, as cel-go does: its shape decides what is evaluated."""
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self._balanced(function, terms, operators, low, middle - 1)
        right = terms[middle + 1] if middle == high else self._balanced(function, terms, operators, middle + 1, high)
        return self._around(ast.Call(operators[middle], function, None, (left, right)), left, right)

    def _deep(self, node: ast.Node, *parts: ast.Node, level: int = 1) -> ast.Node:
        """Note how deep a node reaches. cel-go counts operators, selections, indices and member calls."""
        depth = level + max((self._depths.get(part.id, 0) for part in parts), default=0)
        if depth > RECURSION_LIMIT:
            raise SourceError(self.source, [Issue(-1, "max recursion depth exceeded")])
        if depth:
            self._depths[node.id] = depth
        return node

    def _starts_operand(self, token: Token) -> bool:
        if token.kind == "symbol":
            return token.text in _OPERAND_SYMBOLS
        return token.kind not in ("end", "escaped") and token.text != "in"

    def _skip_stray(self, fault: str) -> None:
        """See to it that an operand comes next, as the grammar's generated parser does.

        A single token that does not belong there is left out, and the parser goes on to find more that is wrong. Raises
        SourceError with `fault` ("mismatched", "extraneous") where that would not help.
        """
        token = self._token
        if self._starts_operand(token):
            return
        if token.kind == "end" or not self._starts_operand(self._tokens[self._position + 1]):
            raise self._syntax(f"{fault} input '{token.text}' expecting {_EXPECTED}")
        self.issues.append(Issue(token.offset, f"Syntax error: extraneous input '{token.text}' expecting {_EXPECTED}"))
        self._position += 1

    def _unary(self) -> Step[ast.Node]:
        self._skip_stray("mismatched")
        for symbol, function in (("!", "!_"), ("-", "-_")):
            if not self._at(symbol):
                continue
            operators: list[Token] = []
            while self._at(symbol) and (operators or not self._at_negative_number()):
                operators.append(self._next())
            if symbol == "!":
                self._skip_stray("extraneous")
            inner: ast.Node = yield self._operand()
            start = operators[0].offset if operators else self.spans[inner.id][0]
            if len(operators) % 2 == 0:
                return self._spanned(inner, start)
            id_ = self.nodes.new(start)
            return self._deep(self._spanned(ast.Call(id_, function, None, (inner,)), start), inner, level=0)
        operand: ast.Node = yield self._operand()
        return operand

    def _at_negative_number(self) -> bool:
        return self._at("-") and self._tokens[self._position + 1].kind in ("int", "float")

    def _number(self) -> ast.Node:
        sign = self._take("-")
        token = self._next()
        id_ = self.nodes.new(sign.offset if sign else token.offset)
        if token.kind == "float":
            return ast.Literal(id_, -token.value if sign else token.value)
        try:
            return ast.Literal(id_, integer(token.text, negative=sign is not None))
        except ValueError as error:
            self.issues.append(Issue(self.nodes.offsets[id_], str(error)))
            return ast.Literal(id_, 0)

    def _operand(self) -> Step[ast.Node]:
        """Read a primary expression with all its selections, indices and calls."""
        start = self._token.offset
        operand = self._number() if self._at_negative_number() else (yield self._primary())
        while True:
            self._spanned(operand, start)
            if dot := self._take("."):
                operand = yield self._dotted(dot, operand)
            elif bracket := self._take("["):
                optional = self._take("?")
                id_ = self.nodes.new(bracket.offset)
                index = yield self._expression()
                self._expect("]")
                call = ast.Call(id_, "_[?_]" if optional else "_[_]", None, (operand, index))
                operand = self._deep(call, operand, index)
            else:
                return operand

    def _dotted(self, dot: Token, operand: ast.Node) -> Step[ast.Node]:
        if self._take("?"):
            name = self._next()
            field = self._field(name)
            id_ = self.nodes.new(dot.offset)
            literal = ast.Literal(self.nodes.new(name.offset), field)
            return self._deep(ast.Call(id_, "_?._", None, (operand, literal)), operand)
        name = self._next()
        if name.kind == "name" and name.text not in _WORDS and (open_ := self._take("(")):
            id_ = self.nodes.new(open_.offset)
            args = yield self._arguments()
            return self._deep(self._expanded(id_, name.text, operand, args), operand, *args)
        field = self._field(name)
        return self._deep(ast.Select(self.nodes.new(dot.offset), operand, field), operand)

    def _field(self, token: Token) -> str:
        if token.kind == "escaped":
            return token.text[1:-1]
        if token.kind == "name" and token.text not in _WORDS:
            return token.text
        self._position -= 1
        raise self._syntax(f"no viable alternative at input '.{token.text}'")

    def _arguments(self) -> Step[tuple[ast.Node, ...]]:
        if self._take(")"):
            return ()
        found = [(yield self._expression())]
        while self._take(","):
            found.append((yield self._expression()))
        self._expect(")")
        return tuple(found)

    def _expanded(self, id_: int, name: str, target: ast.Node | None, args: tuple[ast.Node, ...]) -> ast.Node:
        try:
            expanded = macros.expand(self.nodes, id_, name, target, args)
        except macros.MacroError as error:
            self.issues.append(Issue(self.nodes.offsets[error.node], str(error)))
            return ast.Literal(id_, None)
        return ast.Call(id_, name, target, args) if expanded is None else expanded

    def _primary(self) -> Step[ast.Node]:
        token = self._token
        match token.kind:
            case "int" | "float":
                return self._number()
            case "uint" | "string" | "bytes":
                return ast.Literal(self.nodes.new(self._next().offset), token.value)
            case "symbol" if token.text in _OPENING:
                opened: ast.Node = yield _OPENING[token.text](self)
                return opened
            case "name" if token.text in ("true", "false", "null"):
                self._next()
                return ast.Literal(self.nodes.new(token.offset), _CONSTANTS[token.text])
            case "name" if token.text != "in":
                named: ast.Node = yield self._name(None)
                return named
        raise self._syntax(f"extraneous input '{token.text}' expecting {_EXPECTED}")

    def _nested(self) -> Step[ast.Node]:
        self._next()
        inner: ast.Node = yield self._expression()
        self._expect(")")
        return inner

    def _dot(self) -> Step[ast.Node]:
        named: ast.Node = yield self._name(self._next())
        return named

    def _name(self, dot: Token | None) -> Step[ast.Node]:
        name = self._next()
        if name.kind != "name" or name.text in _WORDS:
            self._position -= 1
            raise self._syntax(f"no viable alternative at input '.{name.text}'")
        message: ast.Node | None = yield self._message(dot, name)
        if message is not None:
            return message
        text = f".{name.text}" if dot else name.text
        if name.text in RESERVED:
            self.issues.append(Issue((dot or name).offset, f"reserved identifier: {name.text}"))
        if open_ := self._take("("):
            id_ = self.nodes.new(open_.offset)
            args = yield self._arguments()
            return self._deep(self._expanded(id_, text, None, args), *args, level=0)
        return ast.Ident(self.nodes.new(name.offset), text)

    def _message(self, dot: Token | None, name: Token) -> Step[ast.Node | None]:
        """Read `a.b.C{…}`, if a brace comes after the dotted name; else read nothing."""
        at = self._position
        names = [name.text]
        while self._at(".") and self._tokens[at + 1].kind == "name" and self._tokens[at + 1].text not in _WORDS:
            names.append(self._tokens[at + 1].text)
            at += 2
            self._position = at
        self._position = at
        if not self._at("{"):
            self._position = at - 2 * (len(names) - 1)
            return None
        brace = self._next()
        type_name = ("." if dot else "") + ".".join(names)
        id_ = self.nodes.new(brace.offset)
        fields = yield self._entries(in_message=True)
        return self._deep(ast.Message(id_, type_name, fields), *(field.value for field in fields), level=0)

    def _field_key(self) -> ast.Node:
        token = self._next()
        return ast.Literal(self.nodes.new(token.offset), self._field(token))

    def _list(self) -> Step[ast.Node]:
        id_ = self.nodes.new(self._next().offset)
        elements: list[ast.Node] = []
        optionals: set[int] = set()
        while not self._at("]"):
            if self._at(",") and not elements:  # the grammar has `[,]` for an empty list
                self._next()
                break
            if self._take("?"):
                optionals.add(len(elements))
            elements.append((yield self._expression()))
            if not self._take(","):
                break
        self._expect("]")
        return self._deep(ast.ListLiteral(id_, tuple(elements), frozenset(optionals)), *elements, level=0)

    def _map(self) -> Step[ast.Node]:
        id_ = self.nodes.new(self._next().offset)
        entries = yield self._entries(in_message=False)
        parts = [part for entry in entries for part in (entry.key, entry.value)]
        return self._deep(ast.MapLiteral(id_, entries), *parts, level=0)

    def _entries(self, *, in_message: bool) -> Step[tuple[ast.Entry, ...]]:
        found: list[ast.Entry] = []
        while not self._at("}"):
            if self._at(",") and not found:
                self._next()
                break
            optional = self._take("?") is not None
            name = self._field_key() if in_message else (yield self._expression())
            colon = self._expect(":")
            found.append(ast.Entry(self.nodes.new(colon.offset), name, (yield self._expression()), optional))
            if not self._take(","):
                break
        self._expect("}")
        return tuple(found)


_OPENING: Final[dict[str, Callable[[_Parser], Step[ast.Node]]]] = {
    "(": _Parser._nested,  # noqa: SLF001 -- the class's own table
    "[": _Parser._list,  # noqa: SLF001
    "{": _Parser._map,  # noqa: SLF001
    ".": _Parser._dot,  # noqa: SLF001
}

_CONSTANTS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None}
