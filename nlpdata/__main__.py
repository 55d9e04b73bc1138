from nlpdata.cli import main

main()
