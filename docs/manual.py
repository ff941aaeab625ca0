#!/usr/bin/env python3
"""Writes all that is told of commands and flags elsewhere, from what `weir help --json` says:

    docs/commands.md            the table of flags and variables
    packaging/man/weir*.1       manual pages
    packaging/completions/      for bash, zsh and fish

Needs a build: build/, or WEIR_BUILD. With --check it writes nothing, and fails if a file differs.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
FILES = ("FILE",)  # values that a shell completes by names of files
CONFIGURED = ("lint", "serve", "simulate")  # commands that read a configuration

MADE = "Made by docs/manual.py."


def names(flag):
    return ([f"-{flag['letter']}"] if flag["letter"] else []) + [f"--{flag['name']}"]


def value(flag):
    return flag["value"].rstrip(".") if flag["value"] else None


# Markdown


def table(commands):
    out = ["# Commands and flags", "",
           "`weir COMMAND --help` shows the same. Flags beat the variables of the environment, and these beat",
           "the configuration. A default stands in parentheses.", ""]
    for command in commands:
        out += [f"## weir {command['name']}", "", command["summary"], "", "```"]
        out += [f"weir {command['name']} {use}".rstrip() for use in command["uses"]]
        out += ["```", "", "| flag | variable | |", "|---|---|---|"]
        for flag in command["flags"]:
            written = ", ".join(f"`{name}{' ' + value(flag) if value(flag) and name[1] == '-' else ''}`"
                                for name in names(flag))
            variable = f"`{flag['variable']}`" if flag["variable"] else ""
            out.append(f"| {written} | {variable} | {flag['help']} |")
        out += [f"|  | `{variable['name']}` | {variable['help']} |" for variable in command["variables"]]
        out += ["", command["note"]] if command["note"] else []
        out += ["", "```sh", *command["examples"], "```"]
        out += ["", f"Exit status: {command['exits']}.", ""]
    return "\n".join(out).rstrip() + "\n"


# Manual pages


def quoted(text):
    """For troff: its escapes, hyphens of options, and a line that begins like a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.M)


def head(name, summary):
    return [f'.\\" {MADE}', f'.TH {name.upper()} 1 "" "" "Weir"', ".SH NAME",
            f"{quoted(name)} \\- {quoted(summary[0].lower() + summary[1:].rstrip('.'))}"]


def page(command):
    name = f"weir-{command['name']}"
    out = head(name, command["summary"]) + [".SH SYNOPSIS"]
    for i, use in enumerate(command["uses"]):
        out += [".br"] * (i > 0) + [f".B weir {command['name']}", quoted(use)]
    out += [".SH OPTIONS"]
    for flag in command["flags"] + [HELP]:
        tag = ", ".join(f"\\fB{quoted(word)}\\fR" for word in names(flag))
        out += [".TP", tag + (f" \\fI{quoted(value(flag))}\\fR" if value(flag) else ""),
                quoted(flag["help"][0].upper() + flag["help"][1:]) + "."]
    variables = [(flag["variable"], f"As \\fB{quoted('--' + flag['name'])}\\fR, which beats it.")
                 for flag in command["flags"] if flag["variable"]]
    variables += [(variable["name"], quoted(variable["help"][0].upper() + variable["help"][1:]) + ".")
                  for variable in command["variables"]]
    if variables:
        out += [".SH ENVIRONMENT"]
        for variable, text in variables:
            out += [".TP", f".B {variable}", text]
    out += [".SH NOTES", quoted(command["note"])] if command["note"] else []
    out += [".SH EXAMPLES", ".nf"] + [quoted(example) for example in command["examples"]] + [".fi"]
    out += [".SH EXIT STATUS", quoted(command["exits"][0].upper() + command["exits"][1:]) + ".",
            ".SH SEE ALSO"]
    out += [".BR weir (1),", ".BR weir.yaml (5)"] if command["name"] in CONFIGURED else [".BR weir (1)"]
    return "\n".join(out) + "\n"


def first_page(commands, examples):
    out = head("weir", "Decide, for every request and every key, whether it may pass now.")
    out += [".SH SYNOPSIS", ".B weir", "\\fICOMMAND\\fR [\\fIARGUMENT\\fR]...", ".SH COMMANDS"]
    for command in commands:
        out += [".TP", f".B {command['name']}", f"{quoted(command['summary'])} See",
                f".BR weir\\-{command['name']} (1)."]
    out += [".SH OPTIONS", ".TP", "\\fB\\-h\\fR, \\fB\\-\\-help\\fR", "Show the commands.",
            ".TP", "\\fB\\-V\\fR, \\fB\\-\\-version\\fR", "Show the version.",
            ".SH EXAMPLES", ".nf", *map(quoted, examples), ".fi",
            ".SH SEE ALSO", ".BR weir.yaml (5)"]
    return "\n".join(out) + "\n"


# Completions

HELP = {"name": "help", "letter": "h", "value": None, "help": "show this", "variable": None}


def words(command):
    """What else may stand behind a command: actions, as in `weir store check`."""
    return sorted({use.split()[0] for use in command["uses"]
                   if use and use.split()[0].isalpha() and use.split()[0].islower()})


def bash(commands):
    out = [f"# bash completion for weir. {MADE}", "", "_weir()", "{",
           '\tlocal word=$2 before=$3 words=""', '\tCOMPREPLY=()',
           '\tif [[ $COMP_CWORD -eq 1 ]]; then',
           f'\t\twords="{" ".join(command["name"] for command in commands)} help --help --version"',
           '\telif [[ ${COMP_WORDS[1]} == help ]]; then',
           f'\t\twords="{" ".join(command["name"] for command in commands)}"', "\telse",
           '\t\tcase "${COMP_WORDS[1]} $before" in']
    for command in commands:
        for flag in command["flags"]:
            if value(flag):
                keys = "|".join(f'"{command["name"]} {name}"' for name in names(flag))
                action = ('\t\t\tCOMPREPLY=($(compgen -f -- "$word"))\n' if value(flag) in FILES else "")
                out.append(f"\t\t{keys})\n{action}\t\t\treturn ;;")
    out += ["\t\tesac", '\t\tcase ${COMP_WORDS[1]} in']
    for command in commands:
        flags = " ".join(name for flag in command["flags"] + [HELP] for name in names(flag) if name[1] == "-")
        out.append(f'\t\t{command["name"]}) words="{" ".join([flags, *words(command)])}" ;;')
    out += ["\t\tesac", "\tfi", '\tCOMPREPLY=($(compgen -W "$words" -- "$word"))',
            "\t# Arguments that are no flags are files mostly.",
            '\t[[ $COMP_CWORD -gt 1 && $word != -* ]] && COMPREPLY+=($(compgen -f -- "$word"))',
            "\treturn 0", "}", "", "complete -o filenames -F _weir weir"]
    return "\n".join(out) + "\n"


def zsh_text(text):
    return text.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")


def zsh(commands):
    out = ["#compdef weir", f"# {MADE}", "", "local -a commands", "commands=("]
    out += [f"\t'{command['name']}:{zsh_text(command['summary'])}'" for command in commands]
    out += ["\t'help:Show the flags of a command.'", ")", "", "if (( CURRENT == 2 )); then",
            "\t_describe command commands", "\treturn", "fi", "",
            "local command=$words[2]", "shift words", "(( CURRENT-- ))", "case $command in"]
    for command in commands:
        out.append(f"{command['name']})")
        out.append("\t_arguments \\")
        for flag in command["flags"] + [HELP]:
            takes = ""
            if value(flag):
                takes = f":{zsh_text(value(flag))}:" + ("_files" if value(flag) in FILES else " ")
            for name in names(flag):
                out.append(f"\t\t'*{name}[{zsh_text(flag['help'])}]{takes}' \\")
        actions = words(command)
        if actions:
            out.append(f"\t\t'1:action:({' '.join(actions)})' \\")
        out += ["\t\t'*:file:_files'", "\t;;"]
    out += ["help)", "\t_describe command commands", "\t;;", "esac"]
    return "\n".join(out) + "\n"


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish(commands):
    known = " ".join(command["name"] for command in commands)
    out = [f"# fish completion for weir. {MADE}", "",
           f"set -l commands {known} help",
           "complete -c weir -f -n \"not __fish_seen_subcommand_from $commands\" -s h -l help -d 'Show the commands'",
           "complete -c weir -f -n \"not __fish_seen_subcommand_from $commands\" -s V -l version -d 'Show the version'",
           f"complete -c weir -f -n '__fish_seen_subcommand_from help' -a '{known}'"]
    for command in commands:
        out.append(f"complete -c weir -f -n \"not __fish_seen_subcommand_from $commands\" -a {command['name']} "
                   f"-d {fish_text(command['summary'])}")
        seen = f"-n '__fish_seen_subcommand_from {command['name']}'"
        for flag in command["flags"] + [HELP]:
            letter = f" -s {flag['letter']}" if flag["letter"] else ""
            takes = "" if not value(flag) else " -r -F" if value(flag) in FILES else " -x"
            out.append(f"complete -c weir {seen}{letter} -l {flag['name']}{takes} -d {fish_text(flag['help'])}")
        if words(command):
            out.append(f"complete -c weir {seen} -a '{' '.join(words(command))}'")
    return "\n".join(out) + "\n"


def main():
    def output(*arguments):
        return subprocess.run([BUILD / "weir", *arguments], check=True, capture_output=True, text=True).stdout

    commands = json.loads(output("help", "--json"))
    examples = re.findall(r"^  (.*)", output("help").partition("Examples:\n")[2], re.M)
    made = {"docs/commands.md": table(commands), "packaging/man/weir.1": first_page(commands, examples),
            "packaging/completions/weir.bash": bash(commands), "packaging/completions/_weir": zsh(commands),
            "packaging/completions/weir.fish": fish(commands)}
    made |= {f"packaging/man/weir-{command['name']}.1": page(command) for command in commands}
    different = [name for name, text in made.items()
                 if not (ROOT / name).exists() or (ROOT / name).read_text() != text]
    if "--check" in sys.argv:
        sys.exit(f"to be made anew by docs/manual.py: {' '.join(different)}" if different else 0)
    for name in different:
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(made[name])


if __name__ == "__main__":
    main()
