# bash completion for weir. Made by docs/manual.py.

_weir()
{
	local word=$2 before=$3 words=""
	COMPREPLY=()
	if [[ $COMP_CWORD -eq 1 ]]; then
		words="serve lint ask why key reset reload status top simulate bench store passwd help --help --version"
	elif [[ ${COMP_WORDS[1]} == help ]]; then
		words="serve lint ask why key reset reload status top simulate bench store passwd"
	else
		case "${COMP_WORDS[1]} $before" in
		"serve -c"|"serve --config")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"serve --http")
			return ;;
		"serve --resp")
			return ;;
		"serve --store")
			return ;;
		"serve --capacity")
			return ;;
		"serve --sync")
			return ;;
		"serve --threads")
			return ;;
		"serve --log-format")
			return ;;
		"lint -c"|"lint --config")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"lint --to")
			return ;;
		"ask --attr")
			return ;;
		"ask --cost")
			return ;;
		"ask --server")
			return ;;
		"ask --user")
			return ;;
		"ask --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"ask --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"ask --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"ask --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"ask --sni")
			return ;;
		"why --id")
			return ;;
		"why --limit")
			return ;;
		"why --rule")
			return ;;
		"why --since")
			return ;;
		"why --until")
			return ;;
		"why --file")
			return ;;
		"why --server")
			return ;;
		"why --user")
			return ;;
		"why --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"why --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"why --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"why --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"why --sni")
			return ;;
		"key --server")
			return ;;
		"key --user")
			return ;;
		"key --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"key --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"key --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"key --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"key --sni")
			return ;;
		"reset --server")
			return ;;
		"reset --user")
			return ;;
		"reset --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reset --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reset --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reset --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reset --sni")
			return ;;
		"reload --server")
			return ;;
		"reload --user")
			return ;;
		"reload --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reload --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reload --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reload --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"reload --sni")
			return ;;
		"status --server")
			return ;;
		"status --user")
			return ;;
		"status --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"status --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"status --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"status --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"status --sni")
			return ;;
		"top --server")
			return ;;
		"top --user")
			return ;;
		"top --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"top --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"top --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"top --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"top --sni")
			return ;;
		"simulate -c"|"simulate --config")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"simulate --trace")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"simulate --format")
			return ;;
		"simulate --pattern")
			return ;;
		"simulate --limit")
			return ;;
		"simulate --try")
			return ;;
		"simulate --suggest")
			return ;;
		"simulate --deny")
			return ;;
		"simulate --by")
			return ;;
		"simulate --per")
			return ;;
		"simulate --key")
			return ;;
		"simulate --capacity")
			return ;;
		"simulate --html")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"simulate --decisions")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"simulate --clients")
			return ;;
		"simulate --attempts")
			return ;;
		"simulate --timeout")
			return ;;
		"simulate --think")
			return ;;
		"simulate --backoff")
			return ;;
		"simulate --backend")
			return ;;
		"simulate --overload")
			return ;;
		"simulate --seed")
			return ;;
		"simulate --attr")
			return ;;
		"bench --protocol")
			return ;;
		"bench --command")
			return ;;
		"bench --limit")
			return ;;
		"bench --path")
			return ;;
		"bench --connections")
			return ;;
		"bench --pipeline")
			return ;;
		"bench --threads")
			return ;;
		"bench --requests")
			return ;;
		"bench --duration")
			return ;;
		"bench --warmup")
			return ;;
		"bench --timeout")
			return ;;
		"bench --rate")
			return ;;
		"bench --keys")
			return ;;
		"bench --distribution")
			return ;;
		"bench --key-length")
			return ;;
		"bench --seed")
			return ;;
		"bench --pid")
			return ;;
		"bench --server")
			return ;;
		"bench --user")
			return ;;
		"bench --login")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"bench --cacert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"bench --cert")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"bench --key")
			COMPREPLY=($(compgen -f -- "$word"))
			return ;;
		"bench --sni")
			return ;;
		"store --owner")
			return ;;
		"store --group")
			return ;;
		"store --capacity")
			return ;;
		esac
		case ${COMP_WORDS[1]} in
		serve) words="--config --http --resp --store --capacity --sync --threads --log-format --help" ;;
		lint) words="--config --strict --to --help" ;;
		ask) words="--attr --cost --peek --server --user --login --tls --cacert --cert --key --sni --help" ;;
		why) words="--id --limit --rule --since --until --file --json --server --user --login --tls --cacert --cert --key --sni --help" ;;
		key) words="--server --user --login --tls --cacert --cert --key --sni --help" ;;
		reset) words="--server --user --login --tls --cacert --cert --key --sni --help" ;;
		reload) words="--server --user --login --tls --cacert --cert --key --sni --help" ;;
		status) words="--json --server --user --login --tls --cacert --cert --key --sni --help" ;;
		top) words="--once --json --server --user --login --tls --cacert --cert --key --sni --help" ;;
		simulate) words="--config --trace --format --pattern --limit --try --suggest --deny --by --per --key --capacity --html --json --decisions --clients --attempts --timeout --think --backoff --backend --overload --seed --attr --help" ;;
		bench) words="--protocol --command --limit --path --connections --pipeline --threads --requests --duration --warmup --timeout --rate --keys --distribution --key-length --seed --pid --json --server --user --login --tls --cacert --cert --key --sni --help" ;;
		store) words="--owner --group --capacity --help check dump repair resize" ;;
		passwd) words="--token --help" ;;
		esac
	fi
	COMPREPLY=($(compgen -W "$words" -- "$word"))
	# Arguments that are no flags are files mostly.
	[[ $COMP_CWORD -gt 1 && $word != -* ]] && COMPREPLY+=($(compgen -f -- "$word"))
	return 0
}

complete -o filenames -F _weir weir
