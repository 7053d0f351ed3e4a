#include "tools/frame/chart_file.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/files/atomic_file.h"
#ifdef LOCKSTEP_HAS_RSVG
#include <librsvg/rsvg.h>

#include <memory>
#endif

namespace lockstep {
namespace {

std::string chart_kind(const std::string& path) { return std::filesystem::path(path).extension().string(); }

#ifdef LOCKSTEP_HAS_RSVG
void check_png(const std::string&) {}

constexpr double kPixelsPerUnit = 2;  // sharp on screens of high resolution

cairo_status_t append_bytes(void* text, const unsigned char* bytes, unsigned int count) {
  static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(bytes), count);
  return CAIRO_STATUS_SUCCESS;
}

std::string png_of(const std::string& svg, const std::string& path) {
  const auto fail = [&path](const std::string& what) {
    return Error("cannot draw the chart: " + what, "--plot " + path, "write .svg instead");
  };
  const std::unique_ptr<RsvgHandle, void (*)(void*)> handle(
      rsvg_handle_new_from_data(reinterpret_cast<const guint8*>(svg.data()), svg.size(), nullptr), g_object_unref);
  if (!handle) throw fail("librsvg does not read it");
  double width = 0;
  double height = 0;
  if (!rsvg_handle_get_intrinsic_size_in_pixels(handle.get(), &width, &height)) throw fail("it has no size");
  const RsvgRectangle area{0, 0, width * kPixelsPerUnit, height * kPixelsPerUnit};
  const std::unique_ptr<cairo_surface_t, void (*)(cairo_surface_t*)> surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(area.width), static_cast<int>(area.height)),
      cairo_surface_destroy);
  const std::unique_ptr<cairo_t, void (*)(cairo_t*)> context(cairo_create(surface.get()), cairo_destroy);
  std::string png;
  if (!rsvg_handle_render_document(handle.get(), context.get(), &area, nullptr) ||
      cairo_surface_write_to_png_stream(surface.get(), append_bytes, &png) != CAIRO_STATUS_SUCCESS) {
    throw fail("librsvg does not render it");
  }
  return png;
}
#else
void check_png(const std::string& path) {
  throw UsageError("this build cannot write PNG: librsvg was not found when it was configured", "--plot " + path,
                   "write .svg, which browsers show; or install librsvg2-dev, configure and build again");
}

std::string png_of(const std::string&, const std::string&) { return {}; }  // check_png has thrown before
#endif

}  // namespace

void check_chart_path(const std::string& path) {
  const std::string kind = chart_kind(path);
  if (kind != ".svg" && kind != ".png") {
    throw UsageError("\"" + path + "\" is not a picture's name", "--plot", "end it in .svg or .png");
  }
  if (kind == ".png") check_png(path);
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  std::error_code none;
  if (!std::filesystem::is_directory(folder, none) || ::access(folder.c_str(), W_OK) != 0) {
    throw UsageError("no file can be written into " + folder, "--plot " + path,
                     "name a folder that exists and that you may write to");
  }
  // Some folders look writable but accept no files, such as /proc.
  std::string probe = (std::filesystem::path(folder) / ".lockstep-plot-XXXXXX").string();
  const int descriptor = ::mkstemp(probe.data());
  if (descriptor < 0) {
    throw UsageError("no file can be written into " + folder + ": " + errno_text(errno), "--plot " + path,
                     "name a folder that you may write to");
  }
  ::close(descriptor);
  ::unlink(probe.c_str());
  if (std::filesystem::is_directory(path, none)) {
    throw UsageError("a folder of this name exists", "--plot " + path, "name a file");
  }
}

void write_chart(const std::string& path, const std::string& svg) {
  check_chart_path(path);
  write_file_atomically(path, chart_kind(path) == ".png" ? png_of(svg, path) : svg);
}

}  // namespace lockstep
