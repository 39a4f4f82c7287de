# Completion of lmc-st for bash 3.2 and later. The command itself says what fits (`lmc-st __complete`). Needs nothing of
# the package bash-completion. Every name is treated as text: none is expanded.

# Adds directories, and files that match one of the patterns; all files if there are none of these.
_lmc_st_files() {
  local pattern name
  compopt -o filenames 2>/dev/null
  for pattern in "$@" '*'; do
    [ "$pattern" = '*' ] && [ ${#COMPREPLY[@]} -gt 0 ] && break
    while IFS= read -r name; do
      [ -d "$name" ] || COMPREPLY+=("$name")
    done < <(compgen -f -X "!$pattern" -- "$cur")
  done
  _lmc_st_folders
}

_lmc_st_folders() {
  local name
  compopt -o filenames 2>/dev/null
  while IFS= read -r name; do
    COMPREPLY+=("$name")
  done < <(compgen -d -- "$cur")
}

_lmc_st() {
  local cur=${COMP_WORDS[COMP_CWORD]} word kind name i
  local plain=('*.safetensors' '*.pt' '*.pth' '*.bin' '*.ckpt' '*.distcp' '*.npz' '*.npy' '*.gguf')
  local words=()
  COMPREPLY=()
  [ "$cur" = '=' ] && cur=''
  for ((i = 1; i < COMP_CWORD; i++)); do # bash splits --level=fast into three words
    word=${COMP_WORDS[i]}
    [ "$word" = '=' ] || words+=("${word//[\\\"\']/}")
  done
  {
    IFS= read -r kind
    while IFS=$'\t' read -r name word; do
      case $cur in [\"\']*) COMPREPLY+=("$name") ;; *) COMPREPLY+=("$(printf %q "$name")") ;; esac
    done
  } < <("${COMP_WORDS[0]}" __complete ${words[@]+"${words[@]}"} "${cur//[\\\"\']/}" 2>/dev/null)
  case $kind in
  plain) _lmc_st_files "${plain[@]}" ;;
  archives) _lmc_st_files '*.lmc' ;;
  either) _lmc_st_files '*.lmc' "${plain[@]}" ;;
  files) _lmc_st_files '*' ;;
  directories) _lmc_st_folders ;;
  esac
}

complete -F _lmc_st lmc-st
