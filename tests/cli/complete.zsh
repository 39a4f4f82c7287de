# complete.zsh FOLDER LINE OUT - writes to OUT what the completion for zsh in FOLDER offers at the end of LINE,
# one a line, then "END". The completion needs a shell with a line editor: it runs in a pseudo terminal.
zmodload zsh/zpty || exit 77
zpty shell zsh -f -i || exit 77
: >$3
zpty -w shell "PS1=; fpath=(${(q)1} \$fpath); autoload -Uz compinit; compinit -u -D; OUT=${(q)3}
compadd() {
  local -a offered
  builtin compadd -A offered \"\$@\"
  (( \$#offered )) && print -rl -- \$offered >>\$OUT
  builtin compadd \"\$@\"
}
zle -C offer .complete-word offer
offer() { _main_complete; compstate[insert]=; compstate[list]=; print -r -- END >>\$OUT }
bindkey '^I' offer
print -r READ''Y"
zpty -r shell unused '*READY*'
zpty -w -n shell "$2"$'\t'
repeat 600; do
  [[ "$(tail -n 1 $3)" == END ]] && break
  sleep 0.05
done
zpty -d shell
