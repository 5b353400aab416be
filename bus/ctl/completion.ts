// Completion scripts for shells, written from the verb table. They start no program while completing, but
// for task ids nothing is guessed.

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
    return `    ${verb.name}) options="${options}"; words="${words}"; files="${files}" ;;`;
  });
  return `# busctl completion for bash: source <(busctl completion bash)
_busctl() {
  local cur="\${COMP_WORDS[COMP_CWORD]}" prev="\${COMP_WORDS[COMP_CWORD-1]}" verb="" options="" words="" files="" i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
      --repo) ((i++)) ;;
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
  if [[ "$cur" == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$cur"))
  elif [[ -n "$files" ]]; then compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur"))
  else COMPREPLY=($(compgen -W "$words" -- "$cur")); fi
}
complete -F _busctl busctl
`;
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
    if (verb.completes === "file") specs.push("'1:plan:_files'");
    if (verb.completes === "shell") specs.push("'1:shell:(bash zsh fish)'");
    return `    ${verb.name}) _arguments ${specs.join(" ")} ;;`;
  });
  return `#compdef busctl
# busctl completion for zsh: busctl completion zsh > "\${fpath[1]}/_busctl"
_busctl() {
  local -a verbs=(
${describe.join("\n")}
  )
  if [[ "\${words[CURRENT-1]}" == --repo ]]; then _directories; return; fi
  local -i i=2
  while (( i < CURRENT )) && [[ "\${words[i]}" == -* ]]; do
    [[ "\${words[i]}" == --repo ]] && (( i++ ))
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
    "complete -c busctl -f",
  ];
  const option = (when: string, o: OptionDef) => {
    const short = o.short ? ` -s ${o.short}` : "";
    const value = o.value ? (o.value === "FILE" || o.value === "DIR" ? " -r -F" : " -x") : "";
    lines.push(`complete -c busctl ${when} -l ${o.name}${short}${value} -d '${quote(o.help)}'`);
  };
  for (const verb of verbs)
    lines.push(`complete -c busctl -n '__busctl_is ""' -a ${verb.name} -d '${quote(verb.summary)}'`);
  for (const o of GLOBAL_OPTIONS) option("", o);
  for (const verb of verbs) {
    const when = `-n '__busctl_is ${verb.name}'`;
    for (const o of verb.options) option(when, o);
    if (verb.completes === "file") lines.push(`complete -c busctl ${when} -F`);
    if (verb.completes === "shell") lines.push(`complete -c busctl ${when} -a 'bash zsh fish'`);
  }
  return `${lines.join("\n")}\n`;
}

/** Fit for single quotes in all three shells. */
function quote(text: string): string {
  return text.replaceAll("'", "").replaceAll("`", "");
}
