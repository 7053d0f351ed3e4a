#pragma once

namespace lockstep {

/// The environment variable that marks every process of a job; its value is the job's own.
constexpr const char* kJobMarkVariable = "LOCKSTEP_JOB";

}  // namespace lockstep
