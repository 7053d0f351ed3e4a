// Ranks that tests start as programs: one program, rank_programs, which is each of them by the name under which it is
// started. Alone, each would instantiate LibTorch's templates once more.
#pragma once

int run_failing_rank(int count, char** arguments);
int run_elastic_rank(int count, char** arguments);
int run_elastic_mistakes(int count, char** arguments);
int run_stopping_rank(int count, char** arguments);
int run_trainer_rank(int count, char** arguments);
