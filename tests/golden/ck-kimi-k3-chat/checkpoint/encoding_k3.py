# stands for the makers' program
