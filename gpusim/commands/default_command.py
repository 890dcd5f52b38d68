"""A group of commands one of which may be left out: what follows the group and is no command is that one's argument."""

from __future__ import annotations

import click


class DefaultCommand(click.Group):
    """A group in which a word that is no command is given to the command :attr:`default`."""

    default: str

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and args[0] not in self.commands:
            args = [self.default, *args]
        return super().resolve_command(ctx, args)
