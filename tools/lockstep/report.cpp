// `lockstep report`: shows a training as one HTML file.
#include <fmt/format.h>
#include <fmt/ostream.h>

#include <filesystem>

#include "lockstep/base/files/atomic_file.h"
#include "lockstep/seeing/html_report.h"
#include "lockstep/seeing/report_data.h"
#include "tools/frame/subcommand.h"

namespace lockstep {
namespace {

class ReportCommand : public Subcommand {
 public:
  void add(CLI::App& app) override {
    app.add_option("folder", folder_, "output folder of a training: it holds metrics.jsonl or trainer_state.json")
        ->required();
    app.add_option("--output", output_, "the HTML file; default: report.html in the folder");
    show_examples(app, {"lockstep report trainer_output", "lockstep report trainer_output --output report.html"});
  }

  int run(const CommandStreams& streams) override {
    const std::string path = output_.empty() ? folder_ + "/report.html" : output_;
    const ReportData data = read_report_data(folder_);
    for (const std::string& warning : data.warnings) fmt::print(streams.err, "warning: {}\n", warning);
    write_file_atomically(path, html_report(data));
    fmt::print(streams.out, "{}\n", std::filesystem::absolute(path).lexically_normal().string());
    return 0;
  }

 private:
  std::string folder_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Subcommand> make_report() { return std::make_unique<ReportCommand>(); }

}  // namespace lockstep
