# Completion of lmc-st for fish: commands, options, levels, files by kind, names of tensors.

# Words before the cursor that are no options and no values of options, the program left out.
function __lmc_st_operands
    set -l is_value 0
    set -l is_over 0
    set -l words (commandline -opc)
    for word in $words[2..-1]
        if test $is_value -eq 1
            set is_value 0
        else if test $is_over -eq 0; and test "$word" = --
            set is_over 1
        else if test $is_over -eq 0; and string match -q -- '-?*' $word
            contains -- $word -o --output --level -j --threads --sha256 --range --base --base-dir --exclude \
                --step --key-every --last --every --settle; and set is_value 1
        else
            printf '%s\n' $word
        end
    end
end

# The command is one of these; run-add is the command add of run.
function __lmc_st_is
    set -l operands (__lmc_st_operands)
    if test (count $operands) -gt 1; and test $operands[1] = run
        set operands run-$operands[2] $operands[3..-1]
    end
    test (count $operands) -gt 0; and contains -- $operands[1] $argv
end

# The command has this many operands already: __lmc_st_has NUMBER COMMAND...
function __lmc_st_has
    set -l operands (__lmc_st_operands)
    if test (count $operands) -gt 1; and test $operands[1] = run
        set operands run-$operands[2] $operands[3..-1]
    end
    test (count $operands) -eq (math $argv[1] + 1); and contains -- $operands[1] $argv[2..-1]
end

# Files that are no archives first.
function __lmc_st_plain
    for kind in safetensors pt pth bin ckpt distcp npz npy gguf
        __fish_complete_suffix .$kind
    end
end

# The tensors of the file that is the first operand. Names with escapes in JSON are left out.
function __lmc_st_tensors
    set -l operands (__lmc_st_operands)
    set -l words (commandline -opc)
    set -l file (string replace -r '^~/' "$HOME/" -- $operands[2])
    $words[1] ls --json -- $file 2>/dev/null | string replace -rf '^[\[ ]\{"name":"([^"\\\\]*)","dtype":.*' '$1'
end

# The steps of the run that is the first operand behind the command: folders that are named by a number.
function __lmc_st_steps
    set -l operands (__lmc_st_operands)
    set -l run (string replace -r '^~/' "$HOME/" -- $operands[3])
    for folder in $run/*/
        string match -r '^[0-9]+$' -- (basename $folder)
    end
end

complete -c lmc-st -f

complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a convert -d 'Write archives of files with tensors'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a restore -d 'Write the files that archives were made from'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a verify -d 'Check archives, write nothing'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a cat -d 'Write the restored file to standard output'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a ls -d 'List the tensors'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a info -d 'Describe a file as a whole'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a get -d 'Write the bytes of a tensor or a part of it'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a diff -d 'Compare the tensors of two files'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a analyze -d 'Entropies, changes, what compresses'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a bench -d "Measure ratio and speed on a file's tensors"
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a doctor -d 'Describe this installation and machine'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a help -d 'Show the help text of a command'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -a run -d 'Keep the snapshots of a training run'
complete -c lmc-st -n '__lmc_st_has 0 help' -a 'convert restore verify cat ls info get diff analyze bench doctor run'
complete -c lmc-st -n '__lmc_st_has 0 run' -a add -d 'Add snapshots'
complete -c lmc-st -n '__lmc_st_has 0 run' -a ls -d 'List the steps'
complete -c lmc-st -n '__lmc_st_has 0 run' -a info -d 'Describe the run as a whole'
complete -c lmc-st -n '__lmc_st_has 0 run' -a restore -d 'Write the snapshot of a step'
complete -c lmc-st -n '__lmc_st_has 0 run' -a get -d 'Write the bytes of a tensor of a step'
complete -c lmc-st -n '__lmc_st_has 0 run' -a verify -d 'Check steps, write nothing'
complete -c lmc-st -n '__lmc_st_has 0 run' -a drop -d 'Remove steps'
complete -c lmc-st -n '__lmc_st_has 0 run' -a keep -d 'Remove all steps but the newest and every Mth'
complete -c lmc-st -n '__lmc_st_has 0 run' -a diff -d 'Compare the tensors of two steps'
complete -c lmc-st -n '__lmc_st_has 0 run' -a repair -d 'Write the list of steps anew'
complete -c lmc-st -n '__lmc_st_has 0 run' -a watch -d 'Add what a trainer completes'

complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -l version -d 'Print the version'
complete -c lmc-st -n 'test (count (__lmc_st_operands)) -eq 0' -s t -l test -d 'The same as verify'
complete -c lmc-st -s h -l help -d 'Show the help text'
complete -c lmc-st -n '__lmc_st_is convert restore' -s o -l output -rF -d 'Name of the output'
complete -c lmc-st -n '__lmc_st_is get run-restore run-get' -s o -l output -rF -d 'Name of the output'
complete -c lmc-st -n '__lmc_st_is convert restore' -s c -l stdout -d 'Write to standard output'
complete -c lmc-st -n '__lmc_st_is convert run-add run-watch' -l level -x -a 'default fast max' -d 'Level of compression'
complete -c lmc-st -n '__lmc_st_is convert run-add run-watch' -l exclude -x -d 'Files of a directory to copy'
complete -c lmc-st -n '__lmc_st_is convert ls info get diff analyze bench' -l raw -d 'Take a file of any kind'
complete -c lmc-st -n '__lmc_st_is convert restore verify cat diff bench' -s j -l threads -x -d 'Number of threads'
complete -c lmc-st -n '__lmc_st_is run-add run-restore run-verify run-drop run-keep run-diff run-watch' -s j -l threads \
    -x -d 'Number of threads'
complete -c lmc-st -n '__lmc_st_is convert restore get run-restore run-get' -s f -l force -d 'Replace an existing output'
complete -c lmc-st -n '__lmc_st_is run-add' -s f -l force -d 'Replace a step with other content'
complete -c lmc-st -n '__lmc_st_is cat' -s f -l force -d 'Write even to a terminal'
complete -c lmc-st -n '__lmc_st_is convert restore run-add run-watch' -l rm -d 'Remove the input once the output was compared'
complete -c lmc-st -n '__lmc_st_is convert restore' -s k -l keep -d 'Keep the input'
complete -c lmc-st -n '__lmc_st_is restore' -l salvage -d 'Write the tensors that are sound'
complete -c lmc-st -n '__lmc_st_is convert restore run-add run-restore run-watch' -l no-fsync \
    -d 'Do not wait for the disk'
complete -c lmc-st -n '__lmc_st_is convert restore verify cat info get diff bench' -l base \
    -xka '(__fish_complete_suffix .lmc; __lmc_st_plain)' -d 'The snapshot it is based on'
complete -c lmc-st -n '__lmc_st_is convert restore verify cat info get diff analyze bench' -l base-dir \
    -xa '(__fish_complete_directories)' -d 'Where bases are'
complete -c lmc-st -n '__lmc_st_is verify' -l sha256 -x -d 'SHA-256 of the restored file'
complete -c lmc-st -n '__lmc_st_is get' -l range -x -d 'Bytes A:B of the tensor'
complete -c lmc-st -n '__lmc_st_is ls info diff analyze bench doctor run-ls run-info run-diff' -l json -d 'Output for programs'
complete -c lmc-st -n '__lmc_st_is convert restore verify' -s q -l quiet -d 'Neither progress bar nor summary'
complete -c lmc-st -n '__lmc_st_is run-add run-restore run-verify run-drop run-keep run-watch' -s q -l quiet \
    -d 'Neither progress bar nor lines of steps'
complete -c lmc-st -n '__lmc_st_is diff run-diff' -s q -l quiet -d 'No output, only the exit status'
complete -c lmc-st -n '__lmc_st_is convert restore verify' -s v -l verbose -d 'Summary of each file'
complete -c lmc-st -n '__lmc_st_is run-add run-restore run-verify run-watch' -s v -l verbose -d 'A line for each file'
complete -c lmc-st -n '__lmc_st_is run-add' -l step -x -d 'The step'
complete -c lmc-st -n '__lmc_st_is run-add run-watch' -l key-every -x -d 'Most steps up to a key frame'
complete -c lmc-st -n '__lmc_st_is run-keep run-watch' -l last -x -d 'Newest steps to keep'
complete -c lmc-st -n '__lmc_st_is run-keep run-watch' -l every -x -d 'Keep the steps that it divides'
complete -c lmc-st -n '__lmc_st_is run-watch' -l settle -x -d 'Seconds without a change'
complete -c lmc-st -n '__lmc_st_is run-add run-drop run-keep' -l dry-run -d 'Only say what would be done'

complete -c lmc-st -n '__lmc_st_has 0 run-add run-ls run-info run-restore run-get' -a '(__fish_complete_directories)'
complete -c lmc-st -n '__lmc_st_has 0 run-verify run-drop run-keep run-diff run-repair run-watch' \
    -a '(__fish_complete_directories)'
complete -c lmc-st -n '__lmc_st_has 1 run-watch' -a '(__fish_complete_directories)'
complete -c lmc-st -n '__lmc_st_is run-add; and not __lmc_st_has 0 run-add' -k -a '(__lmc_st_plain)'
complete -c lmc-st -n '__lmc_st_has 1 run-restore run-get run-diff; or __lmc_st_has 2 run-diff' \
    -a '(__lmc_st_steps)' -d Step
complete -c lmc-st -n '__lmc_st_is run-verify run-drop; and not __lmc_st_has 0 run-verify run-drop' \
    -a '(__lmc_st_steps)' -d Step
complete -c lmc-st -n '__lmc_st_is convert' -k -a '(__lmc_st_plain)'
complete -c lmc-st -n '__lmc_st_is restore' -k -a '(__fish_complete_suffix .lmc)'
complete -c lmc-st -n '__lmc_st_is verify analyze; or __lmc_st_has 0 cat ls info get diff bench; or __lmc_st_has 1 diff' \
    -k -a '(__fish_complete_suffix .lmc; __lmc_st_plain)'
complete -c lmc-st -n '__lmc_st_has 1 get' -a '(__lmc_st_tensors)' -d Tensor
