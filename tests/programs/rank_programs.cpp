#include "tests/programs/rank_programs.h"

#include <cstdio>
#include <string>

int main(int count, char** arguments) {
  const std::string path = count > 0 ? arguments[0] : "";
  const std::string name = path.substr(path.rfind('/') + 1);
  if (name == "failing_rank") return run_failing_rank(count, arguments);
  if (name == "elastic_rank") return run_elastic_rank(count, arguments);
  if (name == "elastic_mistakes") return run_elastic_mistakes(count, arguments);
  if (name == "stopping_rank") return run_stopping_rank(count, arguments);
  if (name == "trainer_rank") return run_trainer_rank(count, arguments);
  std::fprintf(stderr, "there is no rank of the name %s in rank_programs\n", name.c_str());
  return 2;
}
