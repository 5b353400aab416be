// Completion scripts for shells, written from the verb table. The one thing they start is `busctl completion tasks|runs`,
// for names (names.ts).

import { NAME_KINDS, namesMeant } from "./names.ts";
import { GLOBAL_OPTIONS, type OptionDef, type VerbDef } from "./verb-def.ts";

export type Shell = "bash" | "zsh" | "fish";

export function completionScript(shell: Shell, verbs: readonly VerbDef[]): string {
  switch (shell) {
    case "bash":
      return bash(verbs);
    case "zsh":
      return zsh(verbs);
    case "fish":
      return fish(verbs);
  }
}

function allOptions(verb: VerbDef): OptionDef[] {
  return [...verb.options, ...GLOBAL_OPTIONS];
}

function bash(verbs: readonly VerbDef[]): string {
  const cases = verbs.map((verb) => {
    const options = allOptions(verb)
      .flatMap((o) => (o.short ? [`--${o.name}`, `-${o.short}`] : [`--${o.name}`]))
      .join(" ");
    const words = verb.completes === "shell" ? "bash zsh fish" : "";
    const files = verb.completes === "file" ? "1" : "";
    const names = namesMeant(verb.words) ?? "";
    const colon = /TASK:|TASK\[:/.test(verb.words) ? "1" : "";
    return `    ${verb.name}) options="${options}"; words="${words}"; files="${files}"; names="${names}"; colon="${colon}" ;;`;
  });
  const named = NAME_KINDS.map((kind) => `    ${valued(verbs, kind)}) names="${kind}" ;;`);
  return `# busctl completion for bash: source <(busctl completion bash)
_busctl() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" verb="" options="" words="" files="" names="" colon="" i
  local -a repo=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      --repo) repo=(--repo "\${COMP_WORDS[i+1]}"); ((i++)) ;;
      -*) ;;
      *) verb="\${COMP_WORDS[i]}"; break ;;
    esac
  done
  case "$prev" in
    --repo) COMPREPLY=($(compgen -d -- "$cur")); return ;;
    --output|-o) COMPREPLY=($(compgen -f -- "$cur")); return ;;
    --format) COMPREPLY=($(compgen -W "md json" -- "$cur")); return ;;
  esac
  case "$verb" in
    "") COMPREPLY=($(compgen -W "${verbs.map((v) => v.name).join(" ")} --help --version" -- "$cur")); return ;;
${cases.join("\n")}
  esac
  case "$prev" in
    :) return ;;
${named.join("\n")}
  esac
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n "$files" ]]; then compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur"))
  elif [[ -n "$names" ]]; then
    if [[ -n "$colon" ]]; then compopt -o nospace 2>/dev/null; fi
    COMPREPLY=($(compgen \${colon:+-S :} -W "$("\${COMP_WORDS[0]}" "\${repo[@]}" completion "$names" "$cur" 2>/dev/null)" -- "$cur"))
  else COMPREPLY=($(compgen -W "$words" -- "$cur")); fi
}
complete -F _busctl busctl
`;
}

/** Options whose value is a name of that kind, as a pattern of the shell. */
function valued(verbs: readonly VerbDef[], kind: string): string {
  const options = verbs.flatMap(allOptions).filter((o) => namesMeant(o.value) === kind);
  const words = options.flatMap((o) => [`--${o.name}`, ...(o.short ? [`-${o.short}`] : [])]);
  return [...new Set(words)].join("|");
}

function zsh(verbs: readonly VerbDef[]): string {
  const describe = verbs.map((v) => `    '${v.name}:${quote(v.summary).replaceAll(":", "\\:")}'`);
  const cases = verbs.map((verb) => {
    const specs = allOptions(verb).flatMap((o) => {
      const help = quote(o.help).replaceAll("[", "\\[").replaceAll("]", "\\]");
      const tail = o.value
        ? `[${help}]:${o.value.replaceAll(/[^A-Za-z|]/g, "")}:${zshAction(o)}`
        : `[${help}]`;
      return [`'--${o.name}${tail}'`, ...(o.short ? [`'-${o.short}${tail}'`] : [])];
    });
    const names = namesMeant(verb.words);
    if (names !== undefined) specs.push(`'1:${names}: _busctl_names ${names}'`);
    if (verb.completes === "file") specs.push("'1:plan:_files'");
    if (verb.completes === "shell") specs.push("'1:shell:(bash zsh fish)'");
    return `    ${verb.name}) _arguments ${specs.join(" ")} ;;`;
  });
  return `#compdef busctl
# busctl completion for zsh: busctl completion zsh > "\${fpath[1]}/_busctl"
_busctl_names() {
  local -a names=("\${(@f)$(busctl "\${repo[@]}" completion "$1" "$PREFIX" 2>/dev/null)}")
  compadd -- "\${(@)names:#}"
}
_busctl() {
  local -a repo=()
  local -a verbs=(
${describe.join("\n")}
  )
  if [[ "\${words[CURRENT-1]}" == --repo ]]; then _directories; return; fi
  local -i i=2
  while (( i < CURRENT )) && [[ "\${words[i]}" == -* ]]; do
    [[ "\${words[i]}" == --repo ]] && repo=(--repo "\${words[i+1]}") && (( i++ ))
    (( i++ ))
  done
  if (( i >= CURRENT )); then _describe -t verbs 'busctl verb' verbs; return; fi
  local verb="\${words[i]}"
  words=("\${(@)words[i,-1]}"); (( CURRENT -= i - 1 ))
  case "$verb" in
${cases.join("\n")}
  esac
}
if [ "$funcstack[1]" = "_busctl" ]; then _busctl "$@"; else compdef _busctl busctl; fi
`;
}

function zshAction(option: OptionDef): string {
  if (option.value === "DIR") return "_directories";
  const names = namesMeant(option.value);
  if (names !== undefined) return ` _busctl_names ${names}`;
  return option.value === "FILE" ? "_files" : "";
}

/** In a file of its own, ~/.config/fish/completions/busctl.fish, it stands before that of systemd's tool. */
function fish(verbs: readonly VerbDef[]): string {
  const lines = [
    "# busctl completion for fish: busctl completion fish > ~/.config/fish/completions/busctl.fish",
    "function __busctl_verb",
    "  set -l words (commandline -opc)",
    "  set -e words[1]",
    "  while set -q words[1]",
    "    if test $words[1] = --repo",
    "      set -e words[1]",
    "    else if not string match -q -- '-*' $words[1]",
    "      echo $words[1]",
    "      return",
    "    end",
    "    set -e words[1]",
    "  end",
    "end",
    "function __busctl_is",
    '  test "$(__busctl_verb)" = "$argv[1]"',
    "end",
    "function __busctl_names",
    "  set -l words (commandline -opc)",
    "  set -l repo",
    "  if set -l at (contains -i -- --repo $words)",
    '    set repo --repo "$words[$(math $at + 1)]"',
    "  end",
    '  busctl $repo completion $argv[1] "$(commandline -ct)" 2>/dev/null',
    "end",
    "complete -c busctl -f",
  ];
  const option = (when: string, o: OptionDef) => {
    const short = o.short ? ` -s ${o.short}` : "";
    const value = fishValue(o);
    lines.push(`complete -c busctl ${when} -l ${o.name}${short}${value} -d '${quote(o.help)}'`);
  };
  for (const verb of verbs)
    lines.push(`complete -c busctl -n '__busctl_is ""' -a ${verb.name} -d '${quote(verb.summary)}'`);
  for (const o of GLOBAL_OPTIONS) option("", o);
  for (const verb of verbs) {
    const when = `-n '__busctl_is ${verb.name}'`;
    for (const o of verb.options) option(when, o);
    const names = namesMeant(verb.words);
    if (names !== undefined) lines.push(`complete -c busctl ${when} -a '(__busctl_names ${names})'`);
    if (verb.completes === "file") lines.push(`complete -c busctl ${when} -F`);
    if (verb.completes === "shell") lines.push(`complete -c busctl ${when} -a 'bash zsh fish'`);
  }
  return `${lines.join("\n")}\n`;
}

function fishValue({ value }: OptionDef): string {
  if (value === undefined) return "";
  const names = namesMeant(value);
  if (names !== undefined) return ` -x -a '(__busctl_names ${names})'`;
  return value === "FILE" || value === "DIR" ? " -r -F" : " -x";
}

/** Fit for single quotes in all three shells. */
function quote(text: string): string {
  return text.replaceAll("'", "").replaceAll("`", "");
}
