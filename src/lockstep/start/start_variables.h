#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// How a process that computes is to start: with the kernels of OpenBLAS that fit the processor, with its share of the
/// cores as threads, with a heap that keeps what was freed. Libraries read such things from the environment, once, when
/// they are loaded. This is the one place that says which variables those are; three ways of starting use it:
///   - `lockstep run` and `lockstep launch`, for their ranks;
///   - the command `lockstep`, before it becomes `lockstep-torch`;
///   - any other program that is linked with the library, before the constructors of its libraries (preinit.cpp).
/// What the user set is left alone. What was set here is listed in LOCKSTEP_CHOSEN, so that a launcher that is started
/// by such a process does not take it for the user's choice. The list says, too, for how many ranks on which host the
/// threads were chosen: a process that finds itself to be one of another number, or on another host, chooses anew. So a
/// program that takes all cores for itself, and then starts ranks (it calls mpirun, say), does not give each of them
/// all cores.
using StartVariables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kChosenVariable = "LOCKSTEP_CHOSEN";

/// For a rank to be started by this process.
/// @param threads  that it shall compute with, at least 1
/// @param ranks    on this host, as it will find them in LOCAL_WORLD_SIZE
/// @throws Error  if LOCKSTEP_MALLOC is neither "keep" nor "system"
StartVariables variables_for_rank(int threads, int ranks);

/// For this process, where they are not set yet or were chosen for another, in the order of their importance. Those of
/// malloc count from the next execve(2) on, the others until the libraries have started. @throws Error  as above, with
/// `heap`
StartVariables variables_for_this_process(bool heap);

/// Whether the environment has the variable `name`, and not because Lockstep chose it.
bool is_users_choice(const std::string& name);

/// Who decided what the variable `name` says: "user", "lockstep", or "" where it is not set.
std::string chosen_by(const std::string& name);

/// The names of the variables that Lockstep set in this process's environment.
std::vector<std::string> chosen_names();

/// This process's part of the threads that Lockstep chose for a process above it, or for itself; 0 if it chose none, or
/// on another host. If that choice was for another number of ranks, this process is one of those that a process above
/// started and divides its threads with them.
int inherited_threads();

/// OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and MKL_NUM_THREADS for `threads` of them. What is set stays; and if
/// OMP_NUM_THREADS is set, the other two libraries follow it by themselves.
/// @param is_set  whether the environment has a variable that stays
StartVariables thread_variables(int threads, bool (*is_set)(const std::string& name));

}  // namespace lockstep
