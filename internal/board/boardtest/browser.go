// Package boardtest starts the browser in which tests and measurements look at the board.
package boardtest

import (
	"context"
	"os/exec"

	"github.com/chromedp/chromedp"
)

// Browser starts Debian's browser without a window and opens an empty page in it: tabs of its own are made with
// chromedp.NewContext(ctx), and end ends them and the browser. Where none is installed err is an exec.ErrNotFound.
func Browser(options ...chromedp.ExecAllocatorOption) (ctx context.Context, end func(), err error) {
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		return nil, nil, err
	}
	options = append(options, chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		// The browser sets this itself, in one thread while another looks for the bus of the desktop. Where it is new, all
		// variables are moved for it, and who just reads them may crash (glibc before 2.41).
		chromedp.Env("FC_FONTATIONS=1"))
	ctx, end = chromedp.NewContext(context.Background(), chromedp.WithAllocatorOptions(options...))
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}
