// Package boardtest starts the browser in which tests and measurements open the board.
package boardtest

import (
	"context"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// Browser starts Debian's browser without a window and opens an empty page in it. More tabs are created with
// chromedp.NewContext(ctx), and end closes them and the browser. If no browser is installed, err is an exec.ErrNotFound.
func Browser(options ...chromedp.ExecAllocatorOption) (ctx context.Context, end func(), err error) {
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		return nil, nil, err
	}
	options = append(options, chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		// The browser sets this itself, in one thread, while another thread looks for the desktop's bus. Adding a variable moves all of
		// them, and a thread that reads them at that time may crash (glibc before 2.41).
		chromedp.Env("FC_FONTATIONS=1"))
	ctx, end = chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(options...))
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}
