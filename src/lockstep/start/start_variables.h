#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lockstep/start/amx.h"

namespace lockstep {

/// The variables with which a computing process should start: kernels of OpenBLAS and oneDNN that fit the processor,
/// the process's share of the cores as threads, which spin for a short time only, and a heap that keeps freed memory.
/// Libraries read such settings from the environment once, when they are loaded. This file is the only place that lists
/// these variables. Three ways to start use it:
///   - `lockstep run` and `lockstep launch`, for their ranks;
///   - the command `lockstep`, before it becomes `lockstep-torch` or `lockstep-bench`;
///   - any other program that is linked with the library, before the constructors of its libraries (preinit.cpp).
/// Variables that the user set stay as they are. The variables set here are listed in LOCKSTEP_CHOSEN, so that a
/// launcher started by such a process does not take them for the user's choice. The list also records the host and the
/// number of ranks for which the threads were chosen. A process with another number of ranks, or on another host,
/// chooses again. So if a program uses all cores and then starts ranks (with mpirun, say), it does not give all cores
/// to each of them.
using StartVariables = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kChosenVariable = "LOCKSTEP_CHOSEN";

/// The variables for a rank that this process will start.
/// @param threads  number that the rank shall compute with, at least 1
/// @param ranks  number on this host, which the rank will find in LOCAL_WORLD_SIZE
/// @throws Error  if LOCKSTEP_MALLOC is neither "keep" nor "system"
StartVariables variables_for_rank(int threads, int ranks);

/// The variables for this process that are not set yet or were chosen for another process, in order of importance.
/// Those of malloc take effect at the next execve(2); the others take effect if they are set before the libraries
/// start.
/// @throws Error  as above, with `heap`
StartVariables variables_for_this_process(bool heap);

/// Whether the environment has the variable `name` and Lockstep did not choose it.
bool is_users_choice(const std::string& name);

/// The origin of the variable `name`: "user", "lockstep", or "" if it is not set.
std::string chosen_by(const std::string& name);

/// The names of the variables that Lockstep set in this process's environment.
std::vector<std::string> chosen_names();

/// This process's part of the threads that Lockstep chose for itself or for a process above it; 0 if Lockstep chose
/// none, or chose them on another host. If the choice was for another number of ranks, this process is one of the ranks
/// that a process above started, and they divide its threads.
int inherited_threads();

/// OMP_NUM_THREADS, OPENBLAS_NUM_THREADS and MKL_NUM_THREADS, each for `threads` threads. Variables that are set stay
/// as they are; if OMP_NUM_THREADS is set, the other two libraries follow it by themselves.
/// @param is_set  whether the environment has a variable that stays
StartVariables thread_variables(int threads, bool (*is_set)(const std::string& name));

/// How long an idle thread of OpenMP spins before it sleeps: GOMP_SPINCOUNT (GNU's, in rounds) and KMP_BLOCKTIME
/// (LLVM's and Intel's, in milliseconds). Variables that are set stay as they are; if OMP_WAIT_POLICY is set, the
/// libraries follow it by themselves.
///
/// By default GNU's threads spin 300 000 rounds, about 10 ms, and the others' 200 ms. While other programs want the
/// cores, a thread that spins keeps the one that it waits for from computing.
/// @param is_set  whether the environment has a variable that stays
StartVariables spin_variables(bool (*is_set)(const std::string& name));

/// The variable that limits oneDNN's instructions, under its name and its older name.
constexpr const char* kOnednnVariables[] = {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"};

/// Both, set so that oneDNN leaves AMX alone, if the processor does not describe its tiles; else, and if one of them is
/// set, nothing.
StartVariables onednn_variables(Amx amx, bool (*is_set)(const std::string& name));

/// Whether this process is the first of its job that keeps oneDNN from AMX: no launcher above it did, and the user did
/// not choose.
bool is_first_to_withhold_amx();

}  // namespace lockstep
