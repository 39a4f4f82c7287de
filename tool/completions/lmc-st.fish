# Completion of lmc-st for fish. The command itself says what fits (`lmc-st __complete`).

# Files of these kinds first.
function __lmc_st_files
    for kind in $argv
        __fish_complete_suffix .$kind
    end
end

function __lmc_st_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct | string unescape)
    set -l option
    if string match -qr '^--[a-z-]+=' -- $last # --option=VALUE
        set option (string replace -r '=.*' '' -- $last)
        set words $words $option
        set last (string replace -r '^[^=]*=' '' -- $last)
        set option $option=
    end
    set -l told ($words[1] __complete $words[2..-1] "$last" 2>/dev/null)
    for line in $told[2..-1]
        printf '%s%s\n' "$option" $line
    end
    set -l plain safetensors pt pth bin ckpt distcp npz npy gguf
    if test -n "$option" -a -n "$told[1]"
        printf "$option%s\n" (__fish_complete_path $last)
        return
    end
    switch "$told[1]"
        case plain
            __lmc_st_files $plain
        case archives
            __lmc_st_files lmc
        case either
            __lmc_st_files lmc $plain
        case files
            __fish_complete_path $last
        case directories
            __fish_complete_directories $last
    end
end

complete -c lmc-st -f -k -a '(__lmc_st_complete)'
