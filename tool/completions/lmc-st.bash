# Completion of lmc-st for bash 3.2 and later: commands, options, levels, files by kind, names of tensors.
# Needs nothing of the package bash-completion. Every name is treated as text: none is expanded.

# Names of files that are no archives.
_lmc_st_plain=('*.safetensors' '*.pt' '*.pth' '*.bin' '*.ckpt' '*.distcp' '*.npz' '*.npy' '*.gguf')

# Options of a command ("": before one is given).
_lmc_st_options() {
  case $1 in
  convert) echo '-o --output -c --stdout --level --base --base-dir --exclude --raw -j --threads -f --force --rm' \
    '-k --keep --no-fsync -q --quiet -v --verbose -h --help' ;;
  restore) echo '-o --output -c --stdout --base --base-dir -j --threads -f --force --rm -k --keep --salvage' \
    '--no-fsync -q --quiet -v --verbose -h --help' ;;
  verify) echo '--sha256 --base --base-dir -j --threads -q --quiet -v --verbose -h --help' ;;
  cat) echo '--base --base-dir -j --threads -f --force -h --help' ;;
  ls) echo '--json --raw -h --help' ;;
  info) echo '--json --base --base-dir --raw -h --help' ;;
  get) echo '--range --base --base-dir -o --output -f --force --raw -h --help' ;;
  diff) echo '--json --base --base-dir -j --threads -q --quiet --raw -h --help' ;;
  analyze) echo '--json --base-dir --raw -h --help' ;;
  bench) echo '--json --base --base-dir -j --threads --raw -h --help' ;;
  doctor) echo '--json -h --help' ;;
  run) echo '-h --help' ;;
  'run add') echo '--step --key-every --level --exclude -j --threads -f --force --rm --dry-run --no-fsync' \
    '-q --quiet -v --verbose -h --help' ;;
  'run ls') echo '--json -h --help' ;;
  'run info') echo '--json -h --help' ;;
  'run restore') echo '-o --output -j --threads -f --force --no-fsync -q --quiet -v --verbose -h --help' ;;
  'run get') echo '-o --output -f --force -h --help' ;;
  'run verify') echo '-j --threads -q --quiet -v --verbose -h --help' ;;
  'run drop') echo '-j --threads --dry-run -q --quiet -h --help' ;;
  'run keep') echo '--last --every -j --threads --dry-run -q --quiet -h --help' ;;
  'run diff') echo '--json -j --threads -q --quiet -h --help' ;;
  'run repair') echo '-h --help' ;;
  'run watch') echo '--settle --key-every --last --every --level --exclude -j --threads --rm --no-fsync' \
    '-q --quiet -v --verbose -h --help' ;;
  '') echo '-t --test --version -h --help' ;;
  esac
}

# Adds the words of a list of our own that begin with $cur.
_lmc_st_words() {
  COMPREPLY+=($(compgen -W "$1" -- "$cur"))
}

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

# Adds the steps of the run $1, as it is written on the line: folders that are named by a number.
_lmc_st_steps() {
  local run=$1 name
  case $run in '~/'*) run=$HOME/${run#'~/'} ;; esac
  run=${run//[\\\"\']/}
  for name in "$run"/*/; do
    name=${name%/}
    name=${name##*/}
    case $name in *[!0-9]*) ;; "$cur"*) COMPREPLY+=("$name") ;; esac
  done
}

# Adds the tensors of the file $1, as it is written on the line. Names with escapes in JSON are left out.
_lmc_st_tensors() {
  local file=$1 name begin=$cur
  case $file in '~/'*) file=$HOME/${file#'~/'} ;; esac
  file=${file//[\\\"\']/}
  begin=${begin//[\\\"\']/}
  while IFS= read -r name; do
    case $name in
    "$begin"*) case $cur in [\"\']*) COMPREPLY+=("$name") ;; *) COMPREPLY+=("$(printf %q "$name")") ;; esac ;;
    esac
  done < <("${COMP_WORDS[0]}" ls --json -- "$file" 2>/dev/null |
    sed -n 's/^[[ ]{"name":"\([^"\\]*\)","dtype":.*/\1/p')
}

_lmc_st() {
  local cur=${COMP_WORDS[COMP_CWORD]}
  local command='' word value='' is_over='' i
  local operands=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if [ -n "$value" ]; then
      [ "$word" = '=' ] || value='' # bash splits --level=fast into three words
    elif [ -z "$is_over" ] && [ "$word" = -- ]; then
      is_over=1
    elif [ -z "$is_over" ] && [[ $word == -?* ]]; then
      case $word in
      -o | --output | --level | -j | --threads | --sha256 | --range | --base | --base-dir | --exclude) value=$word ;;
      --step | --key-every | --last | --every | --settle) value=$word ;;
      esac
    elif [ -z "$command" ]; then
      command=$word
    elif [ "$command" = run ]; then
      command="run $word"
    else
      operands+=("$word")
    fi
  done
  [ "$cur" = '=' ] && [ -n "$value" ] && cur=''

  case $value in
  --level) _lmc_st_words 'default fast max' ;;
  -j | --threads | --sha256 | --range | --exclude | --step | --key-every | --last | --every | \
    --settle) ;;
  -o | --output) _lmc_st_files '*' ;;
  --base) _lmc_st_files '*.lmc' "${_lmc_st_plain[@]}" ;;
  --base-dir) _lmc_st_folders ;;
  *)
    if [ -z "$is_over" ] && [[ $cur == -* ]]; then
      _lmc_st_words "$(_lmc_st_options "$command")"
      return
    fi
    case $command in
    '') _lmc_st_words 'convert restore verify cat ls info get diff analyze bench doctor run help' ;;
    help)
      if [ ${#operands[@]} -eq 0 ]; then
        _lmc_st_words 'convert restore verify cat ls info get diff analyze bench doctor run'
      fi ;;
    run) _lmc_st_words 'add ls info restore get verify drop keep diff repair watch' ;;
    'run add')
      case ${#operands[@]} in
      0) _lmc_st_folders ;;
      *) _lmc_st_files "${_lmc_st_plain[@]}" ;;
      esac ;;
    'run '*)
      case $command/${#operands[@]} in
      */0 | 'run watch'/1) _lmc_st_folders ;;
      'run verify'/* | 'run drop'/* | 'run restore'/1 | 'run get'/1 | 'run diff'/[12]) _lmc_st_steps "${operands[0]}" ;;
      esac ;;
    convert) _lmc_st_files "${_lmc_st_plain[@]}" ;;
    restore) _lmc_st_files '*.lmc' ;;
    verify | analyze) _lmc_st_files '*.lmc' "${_lmc_st_plain[@]}" ;;
    get)
      case ${#operands[@]} in
      0) _lmc_st_files '*.lmc' "${_lmc_st_plain[@]}" ;;
      1) _lmc_st_tensors "${operands[0]}" ;;
      esac ;;
    diff) [ ${#operands[@]} -lt 2 ] && _lmc_st_files '*.lmc' "${_lmc_st_plain[@]}" ;;
    cat | ls | info | bench) [ ${#operands[@]} -lt 1 ] && _lmc_st_files '*.lmc' "${_lmc_st_plain[@]}" ;;
    esac ;;
  esac
}

complete -F _lmc_st lmc-st
