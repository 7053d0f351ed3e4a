#pragma once

#include <functional>
#include <string>

#include "lockstep/train/trainer_callback.h"

namespace lockstep {

/// Receives the lines that a trainer prints.
using PrintLine = std::function<void(const std::string&)>;

/// Writes a line to standard output and flushes it.
void print_line(const std::string& line);

/// Prints each log as one line, on rank 0.
class PrinterCallback : public TrainerCallback {
 public:
  explicit PrinterCallback(PrintLine print) : print_(std::move(print)) {}
  void on_log(TrainerEvent& event) override;

 private:
  PrintLine print_;
};

}  // namespace lockstep
