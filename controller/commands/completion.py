"""The command `cliquelog completion`."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete commands and options.

    \b
    Examples:
      eval "$(cliquelog completion bash)"                                   # in ~/.bashrc
      eval "$(cliquelog completion zsh)"                                    # in ~/.zshrc
      cliquelog completion fish > ~/.config/fish/completions/cliquelog.fish
    """
    root = context.find_root()
    name = root.info_name or "cliquelog"
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"{shell} is not known to this version of click")
    variable = f"_{name}_COMPLETE".replace("-", "_").upper()
    click.echo(made(root.command, {}, name, variable).source())
