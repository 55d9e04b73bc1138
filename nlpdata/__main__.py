from nlpdata.cli.commands import main

main()
