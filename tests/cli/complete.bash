# complete.bash SCRIPT WORD... - prints what the completion for bash offers for the last word, one a line.
. "$1"
shift
COMP_WORDS=(lmc-st "$@")
COMP_CWORD=$#
_lmc_st
[ ${#COMPREPLY[@]} -eq 0 ] || printf '%s\n' "${COMPREPLY[@]}"
