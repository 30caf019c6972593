// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
/*
 * The driver of the DMA engine in main.rs. A write to /dev/dmatoy is copied by the engine, and a
 * read returns the copy. `make -C /lib/modules/VERSION/build M=$PWD modules` builds it.
 */
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/fs.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/uaccess.h>

#define SOURCE 0x00
#define DESTINATION 0x08
#define LENGTH 0x10
#define DOORBELL 0x14
#define STATUS 0x18
#define STATUS_DONE 2
#define STATUS_ERROR 4
#define INTERRUPT 0x1c

#define LONGEST (64 << 10)

struct dmatoy {
	struct miscdevice misc;
	struct mutex lock;	/* one copy at a time */
	struct completion ended;
	void __iomem *regs;
	void *from, *to;
	dma_addr_t source, destination;
	u32 status;
	size_t length;
};

static void write_address(struct dmatoy *toy, u32 reg, dma_addr_t address)
{
	iowrite32(lower_32_bits(address), toy->regs + reg);
	iowrite32(upper_32_bits(address), toy->regs + reg + 4);
}

/* Copies what is in `from`. The engine reads LENGTH at the doorbell. */
static int copy(struct dmatoy *toy, size_t length)
{
	reinit_completion(&toy->ended);
	write_address(toy, SOURCE, toy->source);
	write_address(toy, DESTINATION, toy->destination);
	iowrite32(length, toy->regs + LENGTH);
	iowrite32(1, toy->regs + DOORBELL);
	if (!wait_for_completion_timeout(&toy->ended, 5 * HZ))
		return -ETIMEDOUT;
	return toy->status & STATUS_ERROR ? -EIO : 0;
}

static irqreturn_t dmatoy_interrupt(int irq, void *data)
{
	struct dmatoy *toy = data;

	toy->status = ioread32(toy->regs + STATUS);
	if (!(toy->status & (STATUS_DONE | STATUS_ERROR)))
		return IRQ_NONE;
	iowrite32(toy->status, toy->regs + STATUS);
	complete(&toy->ended);
	return IRQ_HANDLED;
}

static struct dmatoy *of_file(struct file *file)
{
	return container_of(file->private_data, struct dmatoy, misc);
}

static ssize_t dmatoy_write(struct file *file, const char __user *data, size_t length, loff_t *at)
{
	struct dmatoy *toy = of_file(file);
	int err = 0;

	if (!length || length > LONGEST)
		return -EINVAL;
	mutex_lock(&toy->lock);
	toy->length = 0;
	if (copy_from_user(toy->from, data, length))
		err = -EFAULT;
	else
		err = copy(toy, length);
	if (!err)
		toy->length = length;
	mutex_unlock(&toy->lock);
	return err ? err : length;
}

static ssize_t dmatoy_read(struct file *file, char __user *data, size_t length, loff_t *at)
{
	struct dmatoy *toy = of_file(file);
	ssize_t read;

	mutex_lock(&toy->lock);
	read = simple_read_from_buffer(data, length, at, toy->to, toy->length);
	mutex_unlock(&toy->lock);
	return read;
}

static const struct file_operations dmatoy_files = {
	.owner = THIS_MODULE,
	.read = dmatoy_read,
	.write = dmatoy_write,
};

static int dmatoy_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct device *dev = &pdev->dev;
	struct dmatoy *toy;
	int err;

	toy = devm_kzalloc(dev, sizeof(*toy), GFP_KERNEL);
	if (!toy)
		return -ENOMEM;
	mutex_init(&toy->lock);
	init_completion(&toy->ended);
	err = pcim_enable_device(pdev);
	if (err)
		return err;
	toy->regs = pcim_iomap(pdev, 0, 0);
	if (!toy->regs)
		return -ENOMEM;
	err = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (err)
		return err;
	pci_set_master(pdev);
	toy->from = dmam_alloc_coherent(dev, LONGEST, &toy->source, GFP_KERNEL);
	toy->to = dmam_alloc_coherent(dev, LONGEST, &toy->destination, GFP_KERNEL);
	if (!toy->from || !toy->to)
		return -ENOMEM;
	err = pci_alloc_irq_vectors(pdev, 1, 1, PCI_IRQ_MSI);
	if (err < 0)
		return err;
	err = request_irq(pci_irq_vector(pdev, 0), dmatoy_interrupt, 0, "dmatoy", toy);
	if (err)
		goto no_irq;
	iowrite32(1, toy->regs + INTERRUPT);
	toy->misc.minor = MISC_DYNAMIC_MINOR;
	toy->misc.name = "dmatoy";
	toy->misc.fops = &dmatoy_files;
	toy->misc.parent = dev;
	err = misc_register(&toy->misc);
	if (err)
		goto no_file;
	pci_set_drvdata(pdev, toy);
	return 0;

no_file:
	iowrite32(0, toy->regs + INTERRUPT);
	free_irq(pci_irq_vector(pdev, 0), toy);
no_irq:
	pci_free_irq_vectors(pdev);
	return err;
}

static void dmatoy_remove(struct pci_dev *pdev)
{
	struct dmatoy *toy = pci_get_drvdata(pdev);

	misc_deregister(&toy->misc);
	iowrite32(0, toy->regs + INTERRUPT);
	free_irq(pci_irq_vector(pdev, 0), toy);
	pci_free_irq_vectors(pdev);
}

static const struct pci_device_id dmatoy_ids[] = {
	{ PCI_DEVICE(0x1234, 0xd0a0) },
	{ }
};
MODULE_DEVICE_TABLE(pci, dmatoy_ids);

static struct pci_driver dmatoy_driver = {
	.name = "dmatoy",
	.id_table = dmatoy_ids,
	.probe = dmatoy_probe,
	.remove = dmatoy_remove,
};
module_pci_driver(dmatoy_driver);

MODULE_DESCRIPTION("The driver of a small DMA engine");
MODULE_LICENSE("Dual MIT/GPL");
