"""The errors of the package."""


class JSONError(ValueError):
    """A text is not JSON, or ends too early."""

    byte: int
    """The number of bytes before the error."""
    line: int
    """The line, from 1 on."""
    column: int
    """The column in characters, from 1 on."""
    path: str
    """The JSON Pointer of the value that is due or open there."""

    def __init__(self, message: str, byte: int = 0, line: int = 1, column: int = 1, path: str = "") -> None:
        super().__init__(message, byte, line, column, path)
        self.message, self.byte, self.line, self.column, self.path = message, byte, line, column, path

    def __str__(self) -> str:
        return self.message
