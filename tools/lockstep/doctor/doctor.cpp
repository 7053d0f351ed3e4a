// `lockstep doctor`: is this host fit for training, and how fast is each part of it?
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#include "lockstep/comm/process_group.h"
#include "tools/frame/subcommand.h"
#include "tools/lockstep/doctor/doctor_job.h"
#include "tools/lockstep/doctor/doctor_report.h"
#include "tools/lockstep/doctor/doctor_step.h"

namespace lockstep {
namespace {

std::vector<std::string> step_names() {
  std::vector<std::string> names;
  for (const DoctorStep& step : doctor_steps()) names.emplace_back(step.name);
  return names;
}

std::string summaries() {
  std::string text = "run only these, always in this order:";
  for (const DoctorStep& step : doctor_steps()) text += fmt::format(" {} ({});", step.name, step.summary);
  text.back() = '.';
  return text;
}

class Doctor : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("--output", output_, "write all figures, with versions and devices, to this JSON file");
    app.add_option("--steps", steps_, summaries())->delimiter(',')->check(CLI::IsMember(step_names()));
    app.add_option("--ranks,--nproc-per-node", options_.ranks,
                   "processes in the steps that use several; default: one for each CUDA device, or 2 without devices")
        ->check(CLI::Range(1, 64));
    app.add_option("--size", size_,
                   "full: sizes that keep a GPU busy, a few minutes in all; small: a check of half a minute. Default: "
                   "full with CUDA devices, else small")
        ->check(CLI::IsMember({"full", "small"}));
    app.add_option("--python", options_.python,
                   "Python interpreter whose PyTorch is compared with Lockstep in step training; default: none");
    app.add_option("--part", part_, "a process of a step")->group("");
    app.add_option("--device", place_.device, "of the part")->group("");
    app.add_option("--meeting", place_.meeting, "of the part's ranks")->group("");
    app.add_option("--figures", figures_, "file for the part's figures")->group("");
    show_examples(app, {"lockstep doctor", "lockstep doctor --output doctor.json",
                        "lockstep doctor --steps host,device,group --ranks 4",
                        "lockstep doctor --size full --python torch-env/bin/python3 --output doctor.json"});
  }

  int run(const CommandStreams& streams) override {
    if (!part_.empty()) return run_part_here();
    options_.cuda = cuda_facts();
    options_.is_full = size_.empty() ? options_.has_devices() : size_ == "full";
    print_head(options_, streams.out);
    std::vector<DoctorStepEnd> ends;
    for (const DoctorStep& step : doctor_steps()) {
      if (!steps_.empty() && std::find(steps_.begin(), steps_.end(), step.name) == steps_.end()) continue;
      ends.push_back(run_step(step, options_));
      print_end(ends.back(), streams.out);
    }
    print_summary(ends, streams.out);
    if (!output_.empty()) {
      write_file_atomically(output_, doctor_json(ends, options_).dump(2) + "\n");
      fmt::print(streams.out, "All figures are in {}. Attach that file to a bug report.\n", output_);
    }
    return has_failed(ends) ? 1 : 0;
  }

 private:
  int run_part_here() {
    const auto begin = std::chrono::steady_clock::now();
    const auto& parts = doctor_parts();
    const auto part =
        std::find_if(parts.begin(), parts.end(), [&](const DoctorPart& each) { return each.name == part_; });
    if (part == parts.end()) throw UsageError("there is no part " + part_, "--part", "leave it to lockstep doctor");
    place_.is_full = size_ == "full";
    const nlohmann::ordered_json figures = part->run(place_);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (env_int("RANK").value_or(0) == 0) write_figures(figures_, figures, took.count());
    if (is_initialized()) destroy_process_group();
    return 0;
  }

  DoctorOptions options_;
  std::string output_;
  std::vector<std::string> steps_;
  std::string size_;
  std::string part_;
  DoctorPlace place_;
  std::string figures_;
};

}  // namespace

std::unique_ptr<Subcommand> make_doctor() { return std::make_unique<Doctor>(); }

}  // namespace lockstep
