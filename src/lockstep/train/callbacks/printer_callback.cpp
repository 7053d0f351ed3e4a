#include "lockstep/train/printer_callback.h"

#include <cstdio>

#include "lockstep/train/log_text.h"

namespace lockstep {

void print_line(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  if (line.empty() || line.back() != '\n') std::fputc('\n', stdout);
  std::fflush(stdout);
}

void PrinterCallback::on_log(TrainerEvent& event) {
  if (event.logs != nullptr && event.state.is_world_process_zero && print_) print_(log_line_text(*event.logs));
}

}  // namespace lockstep
