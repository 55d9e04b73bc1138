from pretrain.commands import main

main()
