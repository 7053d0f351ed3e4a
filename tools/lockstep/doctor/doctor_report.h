#pragma once

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "tools/lockstep/doctor/doctor_step.h"

namespace lockstep {

/// How a step ended.
struct DoctorStepEnd {
  enum class Verdict { Ok, Failed, Skipped };
  std::string name;
  Verdict verdict = Verdict::Ok;
  double seconds = 0;
  StepFigures found;
  std::string why;  ///< if it failed or was skipped: what happened
  std::string fix;  ///< if it failed: what to do
};

/// Runs a step, and turns what it throws into its end.
DoctorStepEnd run_step(const DoctorStep& step, const DoctorOptions& options);

bool has_failed(const std::vector<DoctorStepEnd>& ends);

/// The file that a report of a fault should have: versions, host, devices, figures.
nlohmann::ordered_json doctor_json(const std::vector<DoctorStepEnd>& ends, const DoctorOptions& options);

void print_head(const DoctorOptions& options, std::ostream& out);
void print_end(const DoctorStepEnd& end, std::ostream& out);
/// What failed, and what to do.
void print_summary(const std::vector<DoctorStepEnd>& ends, std::ostream& out);

}  // namespace lockstep
