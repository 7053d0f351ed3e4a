#include "lockstep/train/printer_callback.h"

#include "lockstep/train/log_text.h"

namespace lockstep {

void PrinterCallback::on_log(TrainerEvent& event) {
  if (event.logs != nullptr && event.state.is_world_process_zero && print_) print_(log_line_text(*event.logs));
}

}  // namespace lockstep
