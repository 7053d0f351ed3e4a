#include "tests/support/mpi_places.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace lockstep {
namespace {

bool is_of_mpi(const std::string& name) {
  return name.rfind("OMPI_", 0) == 0 || name.rfind("PMIX_", 0) == 0 || name.rfind("PMI_", 0) == 0;
}

// Reads NAME=VALUE texts that end in zero bytes.
std::map<std::string, std::string> read_variables(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::map<std::string, std::string> found;
  for (std::string entry; std::getline(file, entry, '\0');) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos && is_of_mpi(entry.substr(0, equals))) {
      found[entry.substr(0, equals)] = entry.substr(equals + 1);
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> mpirun_words(int count) {
  return {"mpirun", "--oversubscribe", "--bind-to", "none", "--enable-recovery", "-np", std::to_string(count)};
}

std::map<std::string, std::optional<std::string>> mpirun_changes() {
  return {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

std::optional<std::string> MpiPlaces::why_not() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return std::nullopt;
  }
  return "engine mpi is not tested: mpirun is not installed (package openmpi-bin)";
}

MpiPlaces::MpiPlaces(int count) {
  const std::string hold = folder_ / "hold";
  if (::mkfifo(hold.c_str(), 0600) != 0) throw std::runtime_error("mkfifo " + hold);
  hold_ = UniqueFd(::open(hold.c_str(), O_RDWR | O_CLOEXEC));
  const std::string place = folder_ / "place-$OMPI_COMM_WORLD_RANK";
  std::vector<std::string> words = mpirun_words(count);
  words.insert(words.end(), {"sh", "-c",
                             "exec 3< " + hold + "; env -0 > " + place + ".new; mv " + place + ".new " + place +
                                 "; echo told; read line <&3; true"});
  mpirun_ = std::make_unique<RunningProgram>(words, mpirun_changes());
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  for (int rank = 0; rank < count; ++rank) {
    const std::string told = folder_ / ("place-" + std::to_string(rank));
    while (::access(told.c_str(), R_OK) != 0) {
      if (!mpirun_->wait_for_more(deadline)) throw std::runtime_error("mpirun did not start: " + mpirun_->err());
    }
    variables_.push_back(read_variables(told));
  }
}

MpiPlaces::~MpiPlaces() {
  hold_ = UniqueFd();
  try {
    mpirun_->wait(Deadline::after(std::chrono::seconds(10)));
  } catch (const std::runtime_error&) {  // it is killed with the object
  }
}

}  // namespace lockstep
