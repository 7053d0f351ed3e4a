#include "tools/lockstep/doctor/doctor_report.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <sys/utsname.h>
#include <torch/version.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "lockstep/base/error.h"
#include "lockstep/base/processor/processor_name.h"
#include "lockstep/base/processor/topology.h"
#include "lockstep/version.h"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(DoctorStepEnd::Verdict verdict) {
  switch (verdict) {
    case DoctorStepEnd::Verdict::Ok:
      return "ok";
    case DoctorStepEnd::Verdict::Failed:
      return "failed";
    case DoctorStepEnd::Verdict::Skipped:
      break;
  }
  return "skipped";
}

std::string time_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string kernel_release() {
  utsname name{};
  return ::uname(&name) == 0 ? name.release : "unknown";
}

}  // namespace

DoctorStepEnd run_step(const DoctorStep& step, const DoctorOptions& options) {
  DoctorStepEnd end;
  end.name = step.name;
  end.why = step.why_not(options);
  if (!end.why.empty()) {
    end.verdict = DoctorStepEnd::Verdict::Skipped;
    return end;
  }
  const auto begin = std::chrono::steady_clock::now();
  try {
    end.found = step.run(options);
  } catch (const Error& error) {
    end.verdict = DoctorStepEnd::Verdict::Failed;
    end.why = error.happened() + "\n  where: " + error.where();
    end.fix = error.fix();
  } catch (const std::exception& error) {
    end.verdict = DoctorStepEnd::Verdict::Failed;
    end.why = error.what();
    end.fix = "report it, with the file that --output writes";
  }
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return end;
}

bool has_failed(const std::vector<DoctorStepEnd>& ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [](const DoctorStepEnd& end) { return end.verdict == DoctorStepEnd::Verdict::Failed; });
}

Json doctor_json(const std::vector<DoctorStepEnd>& ends, const DoctorOptions& options) {
  Json out{{"format", 1},
           {"time", time_now()},
           {"versions", {{"lockstep", LOCKSTEP_VERSION}, {"libtorch", TORCH_VERSION}, {"kernel", kernel_release()}}},
           {"host", {{"cpu", processor_name()}, {"cores", available_cores()}}},
           {"cuda", cuda_json(options.cuda)},
           {"size", options.is_full ? "full" : "small"},
           {"ranks", options.ranks_of_jobs()},
           {"passed", !has_failed(ends)}};
  out["steps"] = Json::array();
  for (const DoctorStepEnd& end : ends) {
    Json step{{"name", end.name}, {"verdict", name_of(end.verdict)}, {"seconds", end.seconds}};
    if (end.verdict == DoctorStepEnd::Verdict::Ok) step["figures"] = end.found.figures;
    if (!end.why.empty()) step["why"] = end.why;
    if (!end.fix.empty()) step["fix"] = end.fix;
    out["steps"].push_back(step);
  }
  return out;
}

void print_head(const DoctorOptions& options, std::ostream& out) {
  fmt::print(out, "Lockstep {}, LibTorch {}, {}, {} cores\n", LOCKSTEP_VERSION, TORCH_VERSION, processor_name(),
             available_cores());
  for (std::size_t i = 0; i < options.cuda.devices.size(); ++i) {
    fmt::print(out, "device {}: {}\n", i, device_text(options.cuda.devices[i]));
  }
  if (options.cuda.devices.empty()) fmt::print(out, "no CUDA device: {}\n", options.cuda.why_none);
  fmt::print(out, "\n{:<9} {:<8} {:>6}\n", "step", "verdict", "s");
  out.flush();
}

void print_end(const DoctorStepEnd& end, std::ostream& out) {
  const std::string line =
      end.verdict == DoctorStepEnd::Verdict::Ok ? end.found.line : end.why.substr(0, end.why.find('\n'));
  fmt::print(out, "{:<9} {:<8} {:>6.1f}  {}\n", end.name, name_of(end.verdict), end.seconds, line);
  out.flush();
}

void print_summary(const std::vector<DoctorStepEnd>& ends, std::ostream& out) {
  int passed = 0;
  for (const DoctorStepEnd& end : ends) {
    passed += end.verdict == DoctorStepEnd::Verdict::Ok ? 1 : 0;
    if (end.verdict == DoctorStepEnd::Verdict::Failed) {
      fmt::print(out, "\n{} failed: {}\n  fix: {}\n", end.name, end.why, end.fix);
    }
  }
  if (!has_failed(ends)) fmt::print(out, "\nAll {} steps that apply here passed.\n", passed);
}

}  // namespace lockstep
